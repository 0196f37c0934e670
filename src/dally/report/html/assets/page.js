// Puts the page together: theme, charts, tables, and the course of the run once the rest is on the screen.

const dally = { ready: false };
window.dally = dally;

function json(id) {
  const found = document.getElementById(id);
  return found ? JSON.parse(found.textContent) : null;
}

const charts = json("chart-specs") || [];
function drawCharts() {
  document.querySelectorAll("figure[data-chart]").forEach((figure) => drawChart(figure, charts[Number(figure.dataset.chart)]));
}

function redrawCanvases() {
  if (!dally.gantt) return;
  dally.paint.refresh();
  showColours();
  dally.gantt.draw();
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = colourOf("--page").startsWith("#0");
  root.dataset.theme = dark ? "light" : "dark";
  redrawCanvases();
});
// On paper everything is light, what is drawn on canvases too.
addEventListener("beforeprint", () => {
  dally.theme = document.documentElement.dataset.theme || "";
  document.documentElement.dataset.theme = "light";
  redrawCanvases();
});
addEventListener("afterprint", () => {
  document.documentElement.dataset.theme = dally.theme;
  redrawCanvases();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCanvases);

document.querySelectorAll("table.sortable").forEach(sortable);

// One part of the page at a time: a workload of a comparison, a figure of a sweep.
document.querySelectorAll("select.choose").forEach((select) => {
  const show = () => {
    document.querySelectorAll(`[data-part-of="${select.id}"]`).forEach((part) => {
      part.classList.toggle("hidden", part.dataset.part !== select.value);
    });
    drawCharts();
  };
  select.addEventListener("change", show);
  show();
});

let resizing = 0;
let lastWidth = innerWidth;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => {
    if (innerWidth === lastWidth) return;
    lastWidth = innerWidth;
    drawCharts();
    if (dally.gantt) dally.gantt.resize();
  }, 120);
});

function showColours() {
  const { box, course, how, paint } = dally.gantt;
  colourLegend(box.querySelector(".legend"), course, how.value, paint);
}

async function startCourse() {
  const packed = document.getElementById("course");
  if (packed) {
    dally.course = new Course(json("course-facts"), await unpack(packed.textContent.trim()));
    dally.paint = new Paint();
    dally.gantt = new Gantt(document.querySelector(".gantt"), dally.course, dally.paint);
    dally.gantt.how.addEventListener("change", showColours);
    showColours();
    dally.gantt.seek(Number(document.querySelector(".gantt .jump").value) / dally.course.tick_s);
    const visit = () => { if (dally.gantt.visit(location.hash)) document.getElementById("gpus").scrollIntoView(); };
    addEventListener("hashchange", visit);
    visit();
  }
  dally.ready = true;
}

drawCharts();
requestAnimationFrame(() => setTimeout(startCourse, 0));
