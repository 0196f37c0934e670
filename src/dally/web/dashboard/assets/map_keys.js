// The map by keyboard: arrows walk, Enter goes in, Escape goes out.

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const ZOOM = 1.6;

export function listenToKeys(canvas, map) {
  canvas.addEventListener("keydown", (event) => {
    if (!map.tree || event.altKey || event.ctrlKey || event.metaKey) return;
    const act = actOf(event, map);
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();  // a replay has keys of its own
    act();
  });
  canvas.addEventListener("focus", () => { if (map.tree && canvas.matches(":focus-visible")) map.walk.step(0, 0); });
  canvas.addEventListener("blur", () => map.walk.leave());
}

function actOf(event, map) {
  if (event.key in STEPS) return () => map.walk.step(...STEPS[event.key]);
  return {
    Enter: () => map.walk.enter(),
    " ": () => map.walk.pin(),
    Escape: () => map.walk.out(),
    "+": () => map.zoom(ZOOM),
    "=": () => map.zoom(ZOOM),
    "-": () => map.zoom(1 / ZOOM),
    0: () => map.view.fit(),
    Home: () => map.view.fit(),
  }[event.key];
}
