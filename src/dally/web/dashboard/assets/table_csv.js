// Tables as files: a button with data-csv saves the table before it, as it is shown.

function text(cell) {
  const small = [...cell.querySelectorAll("small")].map((one) => one.textContent.trim());
  const copy = cell.cloneNode(true);
  for (const one of copy.querySelectorAll("small")) one.remove();
  return [copy.textContent.trim(), ...small].filter(Boolean).join("; ").replace(/\s+/g, " ");
}

function quoted(value) {
  const safe = /^[=+@]/.test(value) ? `'${value}` : value; // no formulas from names of jobs
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csvOf(table) {
  return [...table.rows].map((row) => [...row.cells].map((cell) => quoted(text(cell))).join(",")).join("\r\n") + "\r\n";
}

function tableBefore(button) {
  const tables = [...document.querySelectorAll("table")];
  return tables.findLast((one) => one.compareDocumentPosition(button) & Node.DOCUMENT_POSITION_FOLLOWING);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-csv]");
  const table = button && tableBefore(button);
  if (!table) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csvOf(table)], { type: "text/csv" }));
  link.download = `dally-${document.title.split(" – ")[0].toLowerCase().replace(/[^a-z0-9]+/g, "-")}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
