// How values read, and small things for building the page.

function span(seconds) {
  for (const [unit, size, least] of [["d", 86400, 2], ["h", 3600, 1.5], ["min", 60, 1.5]]) {
    if (seconds >= least * size) return cut(seconds / size) + " " + unit;
  }
  return cut(seconds) + " s";
}

function cut(number) {
  return number >= 100 ? Math.round(number).toLocaleString("en") : String(Math.round(number * 10) / 10);
}

function share(value) {
  const percent = value * 100;
  return (percent !== 0 && Math.abs(percent) < 10 ? percent.toFixed(1) : Math.round(percent)) + " %";
}

function clock(seconds) {
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  return `day ${Math.floor(seconds / 86400)} ${two(seconds / 3600 % 24)}:${two(seconds / 60 % 60)}:${two(seconds % 60)}`;
}

function read(value, how) {
  if (how === "span") return span(value);
  if (how === "share") return share(value);
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Math.round(value * 100) / 100);
}

function make(parent, name, attributes = {}, text = "") {
  const svg = parent instanceof SVGElement || name === "svg";
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  parent.append(made);
  return made;
}

const tip = {
  show(event, text) {
    const box = document.getElementById("tip");
    box.textContent = text;
    box.style.display = "block";
    const left = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8);
    const below = event.clientY + 16 + box.offsetHeight < innerHeight;
    box.style.left = Math.max(8, left) + "px";
    box.style.top = (below ? event.clientY + 16 : event.clientY - box.offsetHeight - 12) + "px";
  },
  hide() {
    document.getElementById("tip").style.display = "none";
  },
};

function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const ruler = document.createElement("canvas").getContext("2d");
function textWidth(text) {
  ruler.font = "12px system-ui, sans-serif";
  return ruler.measureText(text).width;
}

function fitted(text, width) {
  if (textWidth(text) <= width) return text;
  let kept = text;
  while (kept.length > 3 && textWidth(kept + "…") > width) kept = kept.slice(0, -1);
  return kept + "…";
}
