// Charts as SVG. A chart says what it shows; how wide it is, the page decides.

const DASHES = ["", "7 3", "2 3"];
const PALETTE = 12;
const GREY = 7;  // the colour of series that only are there to compare with

function place(axis, from, to) {
  if (axis.scale === "log") {
    const low = Math.log(axis.low), high = Math.log(axis.high);
    return (value) => from + (to - from) * (Math.log(Math.max(value, axis.low)) - low) / (high - low);
  }
  return (value) => from + (to - from) * (value - axis.low) / (axis.high - axis.low);
}

function drawChart(figure, chart) {
  const hidden = figure.hiddenSeries || (figure.hiddenSeries = new Set());
  const host = figure.querySelector(".plot");
  const width = host.clientWidth;
  if (!width) return;
  host.replaceChildren();
  drawLegend(figure, chart, hidden);
  const box = layout(chart, width);
  const svg = make(host, "svg", { viewBox: `0 0 ${width} ${box.height}`, role: "img", "aria-label": chart.title });
  box.x = place(chart.x, box.left, box.right);
  box.y = chart.y.scale === "category" ? place(chart.y, box.top, box.bottom) : place(chart.y, box.bottom, box.top);
  drawAxes(svg, chart, box);
  const shown = (chart.series || []).map((one, number) => ({ ...one, number })).filter((one) => !hidden.has(one.name));
  ({ lines: drawLines, steps: drawLines, dots: drawDots, stack: drawStack, heat: drawHeat })[chart.kind](svg, chart, box, shown);
}

function layout(chart, width) {
  let left = 46, height = 300;
  if (chart.y.scale === "category") {
    const longest = Math.max(...chart.y.ticks.map(([, label]) => textWidth(label)));
    left = Math.min(longest + 14, width * 0.36);
    const rows = chart.y.ticks.length;
    const one = chart.kind === "heat" ? Math.min(24, Math.max(7, 420 / rows))
      : chart.kind === "dots" && chart.series.length > 2 ? 20 + 4 * chart.series.length
      : Math.max(32, Math.min(46, 200 / rows));
    height = 22 + rows * one + 46;
  } else {
    left = 14 + Math.max(...chart.y.ticks.map(([, label]) => textWidth(label)));
  }
  const right = chart.totals ? width - 52 : width - 16;  // what a bar amounts to stands behind it
  return { left, right, top: 24, bottom: height - 44, height, width };
}

function drawAxes(svg, chart, box) {
  make(svg, "text", { class: "axis-title y", x: 0, y: 12 }, chart.y.title);
  make(svg, "text", { class: "axis-title x", x: box.right, y: box.height - 6, "text-anchor": "end" }, chart.x.title);
  let free = -Infinity;
  for (const [value, label] of chart.x.ticks) {
    const at = box.x(value);
    if (at > box.right + 0.5 || at < box.left - 0.5) continue;
    if (chart.kind !== "heat") make(svg, "path", { class: "grid", d: `M${at} ${box.top}V${box.bottom}` });
    const half = textWidth(label) / 2;
    if (at - half < free || at + half > box.width) continue;
    free = at + half + 8;
    make(svg, "path", { class: "base", d: `M${at} ${box.bottom}v4` });
    make(svg, "text", { x: at, y: box.bottom + 17, "text-anchor": "middle" }, label);
  }
  let last = -Infinity;
  for (const [value, label] of chart.y.ticks) {
    const at = box.y(value);
    if (chart.y.scale !== "category") make(svg, "path", { class: "grid", d: `M${box.left} ${at}H${box.right}` });
    if (Math.abs(at - last) < 11) continue;
    last = at;
    const accent = (chart.accents || {})[label];
    const style = accent === undefined ? "" : `fill:var(--s${accent});font-weight:650`;
    const shown = make(svg, "text", { x: box.left - 7, y: at + 4, "text-anchor": "end", style }, fitted(label, box.left - 8));
    if (shown.textContent !== label) make(shown, "title", {}, label);
  }
  make(svg, "path", { class: "base", d: `M${box.left} ${box.bottom}H${box.right}` });
}

function drawLegend(figure, chart, hidden) {
  const list = figure.querySelector(".legend");
  list.replaceChildren();
  if (chart.kind === "heat") return drawRamp(list, chart);
  if (chart.series.length < 2) return;
  for (const one of chart.series) {
    const item = make(make(list, "li"), "button", { type: "button", "aria-pressed": String(!hidden.has(one.name)) });
    make(item, "span", { class: "swatch", style: `background:var(--s${one.colour % PALETTE})` });
    item.append(one.name);
    const warm = (on) => figure.querySelectorAll(`[data-series="${chart.series.indexOf(one)}"]`).forEach((mark) => {
      mark.classList.toggle("hot", on);
      if (on) mark.parentNode.append(mark);
    });
    item.addEventListener("pointerenter", () => warm(true));
    item.addEventListener("pointerleave", () => warm(false));
    item.addEventListener("click", () => {
      if (!hidden.delete(one.name) && hidden.size < chart.series.length - 1) hidden.add(one.name);
      drawChart(figure, chart);
    });
  }
}

function drawRamp(list, chart) {
  const item = make(list, "li", { class: "ramp" });
  make(item, "span", {}, read(chart.z.low, chart.z.reads));
  const bar = make(item, "span", { class: "bar" });
  for (let level = 0; level < 10; level++) make(bar, "i", { style: `background:var(--h${level})` });
  make(item, "span", {}, `${read(chart.z.high, chart.z.reads)}  ${chart.z.title}`);
}

const stroke = (one) => `var(--s${one.colour % PALETTE})`;
const greyBelow = (shown) => [...shown].sort((a, b) => (b.colour === GREY) - (a.colour === GREY));

// Where lines that go beyond the axis end.
function clipped(svg, box) {
  const [x, y, width, height] = [box.left, box.top - 2, box.right - box.left, box.bottom - box.top + 3];
  return make(svg, "svg", { class: "cut", x, y, width, height, viewBox: `${x} ${y} ${width} ${height}` });
}

function drawLines(svg, chart, box, shown) {
  const stepped = chart.kind === "steps";
  const inside = clipped(svg, box);
  for (const one of greyBelow(shown)) {
    let path = "";
    one.xs.forEach((value, at) => {
      const x = box.x(value).toFixed(1), y = box.y(one.ys[at]).toFixed(1);
      path += at === 0 ? `M${x} ${y}` : stepped ? `H${x}V${y}` : `L${x} ${y}`;
    });
    make(inside, "path", {
      d: path, fill: "none", style: `stroke:${stroke(one)}`, "stroke-width": 2, "stroke-linejoin": "round",
      "stroke-dasharray": DASHES[Math.floor(one.colour / PALETTE) % 3], "data-series": one.number,
      opacity: one.colour === GREY && shown.length > 3 ? 0.7 : 1,
    });
  }
  const cursor = make(svg, "path", { class: "cursor", d: "" });
  onMove(svg, box, (event, x) => {
    const value = inverse(chart.x, (x - box.left) / (box.right - box.left));
    cursor.setAttribute("d", `M${x} ${box.top}V${box.bottom}`);
    const rows = shown.map((one) => `${one.name}: ${read(valueAt(one, value, stepped), chart.y.reads)}`);
    tip.show(event, [(chart.x.scale === "linear" && chart.x.reads === "span" ? clock(value, chart.x) : span(value)), ...rows].join("\n"));
  }, () => cursor.setAttribute("d", ""));
}

function inverse(axis, part) {
  if (axis.scale === "log") return axis.low * (axis.high / axis.low) ** part;
  return axis.low + (axis.high - axis.low) * part;
}

function valueAt(one, value, stepped) {
  let low = 0, high = one.xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (one.xs[middle] <= value) low = middle + 1; else high = middle;
  }
  if (low === 0) return stepped ? one.ys[0] : 0;
  if (stepped || low === one.xs.length) return one.ys[low - 1];
  const part = (value - one.xs[low - 1]) / (one.xs[low] - one.xs[low - 1]);
  return one.ys[low - 1] + part * (one.ys[low] - one.ys[low - 1]);
}

function onMove(svg, box, moved, left) {
  const area = make(svg, "rect", {
    x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, fill: "transparent",
  });
  area.addEventListener("pointermove", (event) => {
    const seen = svg.getBoundingClientRect();
    const scale = box.width / seen.width;
    const x = Math.min(box.right, Math.max(box.left, (event.clientX - seen.left) * scale));
    moved(event, x, (event.clientY - seen.top) * scale);
  });
  area.addEventListener("pointerleave", () => { left(); tip.hide(); });
}

function tell(mark, text) {
  mark.addEventListener("pointermove", (event) => tip.show(event, text));
  mark.addEventListener("pointerleave", tip.hide);
}

function drawDots(svg, chart, box, shown) {
  const many = chart.series.length > 2;
  const vertical = chart.y.scale !== "category";
  for (const one of greyBelow(shown)) {
    const shift = many && !vertical ? (one.number - (chart.series.length - 1) / 2) * 4 : 0;
    if (one.look === "joined") {
      const points = one.xs.map((value, at) => `${box.x(value).toFixed(1)} ${box.y(one.ys[at]).toFixed(1)}`);
      make(svg, "path", { d: "M" + points.join("L"), fill: "none", style: `stroke:${stroke(one)}`, "stroke-width": 2 });
    }
    one.xs.forEach((value, at) => {
      const x = box.x(value), y = box.y(one.ys[at]) + shift;
      if (one.lows) {
        make(svg, "path", {
          d: vertical ? `M${x} ${box.y(one.lows[at])}V${box.y(one.highs[at])}` : `M${box.x(one.lows[at])} ${y}H${box.x(one.highs[at])}`, style: `stroke:${stroke(one)}`,
          "stroke-width": many ? 3 : 6, "stroke-linecap": "round", opacity: 0.35, "data-series": one.number,
        });
      }
      const dot = make(svg, "circle", { cx: x, cy: y, r: one.look === "small" ? 3 : many ? 4.5 : 5.5, style: `fill:${stroke(one)};stroke:var(--card)`, "data-series": one.number });
      const row = vertical ? read(one.ys[at], chart.y.reads) : chart.y.ticks[one.ys[at]][1];
      const reads = vertical ? chart.y.reads : chart.x.reads;
      const wide = one.lows ? ` (${read(one.lows[at], reads)} to ${read(one.highs[at], reads)})` : "";
      const told = chart.x.scale === "category" ? chart.x.ticks[value][1] : read(value, chart.x.reads);
      tell(dot, `${one.name}\n${chart.y.title}: ${row}${vertical ? wide : ""}\n${chart.x.title}: ${told}${vertical ? "" : wide}`);
    });
  }
}

function drawStack(svg, chart, box, shown) {
  const ends = chart.y.ticks.map(() => 0);
  const thick = Math.min(20, (box.bottom - box.top) / ends.length - 6);
  for (const one of shown) {
    one.xs.forEach((value, at) => {
      const row = one.ys[at];
      const from = Math.min(box.right, box.x(ends[row])), to = Math.min(box.right, box.x(ends[row] + value));
      ends[row] += value;
      if (to - from < 0.2) return;
      const y = box.y(row) - thick / 2;
      const bar = make(svg, "rect", { x: from, y, width: to - from, height: thick, style: `fill:${stroke(one)}`, "data-series": one.number });
      tell(bar, `${chart.y.ticks[row][1]}\n${one.name}: ${read(value, chart.x.reads)}`);
      const label = read(value, chart.x.reads);
      const room = textWidth(label) + 8;
      if (chart.totals && (to >= box.right - 0.5 || shown.length < 2 || chart.totals[row].value === value)) return;
      if (to - from > room) {
        make(svg, "text", { class: "inside", x: (from + to) / 2, y: y + thick / 2 + 4, "text-anchor": "middle" }, label);
      } else if (shown.length === 1 && to + room < box.width) {
        make(svg, "text", { x: to + 5, y: y + thick / 2 + 4 }, label);
      }
    });
  }
  if (shown.length === chart.series.length) for (const total of chart.totals || []) drawTotal(svg, chart, box, total, thick);
}

// A time in the unit of its axis: what is beside it can be compared.
function readOn(axis, value) {
  const size = { days: 86400, hours: 3600, minutes: 60, seconds: 1 }[axis.unit];
  const short = { days: "d", hours: "h", minutes: "min", seconds: "s" }[axis.unit];
  return axis.reads === "span" && size ? `${cut(value / size)} ${short}` : read(value, axis.reads);
}

// The sum of a bar and its range over runs; a bar that the axis does not hold is broken, and its sum stands in it.
function drawTotal(svg, chart, box, total, thick) {
  const y = box.y(total.row), label = readOn(chart.x, total.value);
  const wide = `${label}${total.high > total.low ? ` (${readOn(chart.x, total.low)} to ${readOn(chart.x, total.high)})` : ""}`;
  if (total.value > chart.x.high) {
    const at = box.right - textWidth(label) - 22;
    for (const shift of [0, 5]) make(svg, "path", { class: "break", d: `M${at + shift} ${y + thick / 2 + 1}l6 ${-thick - 2}` });
    const text = make(svg, "text", { class: "inside", x: box.right - 4, y: y + 4, "text-anchor": "end" }, label);
    make(text, "title", {}, `${wide}: longer than the chart`);
    return;
  }
  const low = box.x(total.low), high = Math.min(box.right, box.x(total.high));
  const whisker = high - low > 1;
  if (whisker) {
    const mark = make(svg, "path", { class: "whisker", d: `M${low} ${y - 4}v8M${low} ${y}H${high}M${high} ${y - 4}v8` });
    tell(mark, `${chart.y.ticks[total.row][1]}\n${wide}`);
  }
  const from = Math.max(box.x(total.value), whisker ? high : 0) + 6;
  if (from + textWidth(label) < box.width) make(svg, "text", { x: from, y: y + 4 }, label);
}

function drawHeat(svg, chart, box) {
  const paths = Array(10).fill("");
  const tall = (box.bottom - box.top) / chart.cells.length;
  const gap = tall > 9 ? 1 : 0;
  const level = (value) => value <= chart.z.low ? 0
    : Math.min(9, 1 + Math.floor((value - chart.z.low) / (chart.z.high - chart.z.low) * 9));
  chart.cells.forEach((cells, row) => {
    const y = (box.top + row * tall).toFixed(1);
    for (let at = 0; at < cells.length;) {
      let end = at + 1;
      while (end < cells.length && level(cells[end]) === level(cells[at])) end++;
      const x = box.x(chart.edges[at]);
      const wide = box.x(chart.edges[end]) - x;
      paths[level(cells[at])] += `M${x.toFixed(1)} ${y}h${wide.toFixed(1)}v${(tall - gap).toFixed(1)}h${(-wide).toFixed(1)}z`;
      at = end;
    }
  });
  paths.forEach((d, number) => d && make(svg, "path", { d, style: `fill:var(--h${number})` }));
  if (chart.x.scale === "category") writeCells(svg, chart, box, tall, level);
  onMove(svg, box, (event, x, y) => {
    const value = inverse(chart.x, (x - box.left) / (box.right - box.left));
    const row = Math.min(chart.cells.length - 1, Math.max(0, Math.floor((y - box.top) / tall)));
    let at = chart.edges.findIndex((edge) => edge > value) - 1;
    if (at < 0) at = chart.cells[row].length - 1;
    const when = chart.x.reads === "span" ? clock(value, chart.x) : chart.x.ticks[at] ? chart.x.ticks[at][1] : "";
    tip.show(event, `${chart.y.ticks[row][1]}\n${when}\n${chart.z.title}: ${read(chart.cells[row][at], chart.z.reads)}`);
  }, () => {});
}

function writeCells(svg, chart, box, tall, level) {
  chart.cells.forEach((cells, row) => cells.forEach((value, at) => {
    const label = value < 0 ? "" : read(value, chart.z.reads);
    const from = box.x(chart.edges[at]), to = box.x(chart.edges[at + 1]);
    if (!label || tall < 14 || textWidth(label) > to - from - 4) return;
    const style = level(value) > 4 ? "fill:#fff" : "fill:var(--text)";
    make(svg, "text", { x: (from + to) / 2, y: box.top + (row + 0.5) * tall + 4, "text-anchor": "middle", style }, label);
  }));
}
