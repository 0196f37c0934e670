// Dialogs of actions: opened when htmx brings one, closed when it is done or left, with the focus back where it was.

import { say, tell } from "./base.js";

const box = document.getElementById("dialogs");
let opener = null;

function open(dialog) {
  dialog.addEventListener("close", () => {
    dialog.remove();
    const back = opener?.isConnected ? opener : document.getElementById(opener?.id);
    (back ?? document.getElementById("main")).focus();
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

// Beside the dialog, which its padding is not.
function isBeside(event) {
  if (!event.target.matches("dialog")) return false;
  const { left, top, right, bottom } = event.target.getBoundingClientRect();
  return event.clientX < left || event.clientX > right || event.clientY < top || event.clientY > bottom;
}

// A click is where it began, too: who marks words may let go of them anywhere.
let began = false;
box.addEventListener("pointerdown", (event) => { began = isBeside(event); });
box.addEventListener("click", (event) => {
  if (event.target.closest("[data-close]") || (began && isBeside(event))) box.querySelector("dialog")?.close();
});

box.addEventListener("input", ({ target }) => {
  if (target.name === "minutes") target.form.elements.how.value = "wait";
});

document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.target !== box) return;
  box.querySelector("dialog")?.close();
  say(`That could not be done (${event.detail.xhr.status}).`);
});

// Nothing came back: what was typed stays.
document.addEventListener("htmx:sendError", (event) => {
  if (event.detail.target !== box) return;
  const words = "The server does not answer: it may not have been done. Try again in a while.";
  const form = box.querySelector("dialog form");
  if (!form) { say(words); return; }
  form.querySelector(".problem")?.remove();
  const problem = Object.assign(document.createElement("p"), { className: "problem", role: "alert", textContent: words });
  form.querySelector("h2").after(problem);
});

document.body.addEventListener("dally:acted", (event) => {
  box.querySelector("dialog")?.close();
  say(event.detail.value[0].toUpperCase() + event.detail.value.slice(1));
  tell("dally:log");
});
