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

// An instant: as a date where the trace has dates ({ epoch_s, zone }), else as day 3 04:05:06.
function clock(seconds, dated = null) {
  if (dated && dated.epoch_s != null) return dateOf(seconds, dated);
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  return `day ${Math.floor(seconds / 86400)} ${two(seconds / 3600 % 24)}:${two(seconds / 60 % 60)}:${two(seconds % 60)}`;
}

const calendars = new Map();
function dateOf(seconds, { epoch_s, zone }) {
  if (!calendars.has(zone)) {
    const shown = { timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
    calendars.set(zone, new Intl.DateTimeFormat("en-CA", shown));
  }
  const found = {};
  const parts = calendars.get(zone).formatToParts(new Date(1000 * Math.floor(epoch_s + seconds)));
  for (const { type, value } of parts) found[type] = value;
  return `${found.year}-${found.month}-${found.day} ${found.hour}:${found.minute}:${found.second}`;
}

// How far the zone's clocks are ahead of UTC at an instant, in seconds.
function ahead(seconds, dated) {
  return Date.parse(dateOf(seconds, dated).replace(" ", "T") + "Z") / 1000 - Math.floor(dated.epoch_s + seconds);
}

const DATE_STEPS = [60, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 2 * 86400, 7 * 86400, 14 * 86400, 30 * 86400, 90 * 86400];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// [seconds, label] at round local times between two instants.
function dateTicks(low, high, most, dated) {
  const step = DATE_STEPS.find((one) => (high - low) / one <= most) || 365 * 86400;
  const ticks = [];
  const start = dated.epoch_s + ahead(low, dated);
  for (let local = Math.ceil((start + low) / step) * step; ; local += step) {
    const near = local - start;
    const at = local - dated.epoch_s - ahead(near, dated);
    if (at > high) return ticks;
    if (at < low) continue;
    const [date, time] = dateOf(at, dated).split(" ");
    const day = `${Number(date.slice(8))} ${MONTHS[Number(date.slice(5, 7)) - 1]}`;
    ticks.push([at, step >= 86400 ? day : time === "00:00:00" ? day : time.slice(0, 5)]);
  }
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
