// Dialogs of actions: opened when htmx brings one, closed when it is done or left, with the focus back where it was.

import { say, tell } from "./base.js";

const box = document.getElementById("dialogs");
let opener = null;

function open(dialog) {
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (opener?.isConnected) opener.focus();
    else document.getElementById("main").focus();
  });
  dialog.showModal();
}

// The button may be another one by now: the page around it is fetched anew now and then.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.target === box && !box.contains(event.detail.elt)) opener = event.detail.elt;
});

// Once it is settled: before that the form is not htmx's yet, and would be sent by the browser itself.
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target !== box) return;
  const dialog = box.querySelector("dialog:not([open])");
  if (dialog) open(dialog);
});

box.addEventListener("click", (event) => {
  if (event.target.closest("[data-close]") || event.target.matches("dialog")) box.querySelector("dialog")?.close();
});

document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.target !== box) return;
  box.querySelector("dialog")?.close();
  say(`That could not be done (${event.detail.xhr.status}).`);
});

document.body.addEventListener("dally:acted", (event) => {
  box.querySelector("dialog")?.close();
  say(event.detail.value[0].toUpperCase() + event.detail.value.slice(1));
  tell("dally:log");
});
