// Tables sort by a click on a heading: numbers by the value in data-value, words by the alphabet.

function sortable(table) {
  table.querySelectorAll("th").forEach((head, column) => {
    const button = head.querySelector("button");
    if (button) button.addEventListener("click", () => sortBy(table, head, column));
  });
}

function sortBy(table, head, column) {
  const up = head.getAttribute("aria-sort") !== "ascending";
  table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const body = table.tBodies[0];
  const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const rows = [...body.rows].map((row) => [key(row), row]);
  const number = rows.every(([value]) => value === "" || !Number.isNaN(Number(value)));
  rows.sort(([a], [b]) => {
    if (number && (a === "" || b === "")) return (a === "") - (b === "");  // what is not known comes last
    return (up ? 1 : -1) * (number ? a - b : a.localeCompare(b));
  });
  body.append(...rows.map(([, row]) => row));
}
