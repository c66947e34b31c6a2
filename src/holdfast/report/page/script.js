"use strict";
// Texts are only set as textContent: nothing from a result is parsed as markup.
(function () {
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;

  // --- colours: the system's until the button is used; stored if the browser allows it for files
  const button = byId("theme");
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const relabel = () => { button.textContent = dark() ? "Light colours" : "Dark colours"; };
  try {
    const kept = localStorage.getItem("holdfast-theme");
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch (error) { /* the browser stores nothing for files: use the system's colours */ }
  button.hidden = false;
  relabel();
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("holdfast-theme", root.dataset.theme); } catch (error) { /* as above */ }
    relabel();
  });

  // --- printing shows folded parts, except the numbers of figures
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.origin, details.origin .protocol")].filter((one) => !one.open);
    opened.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => { opened.forEach((one) => { one.open = false; }); opened = []; });

  // --- examples
  const held = byId("examples-data");
  if (!held) return;
  const { options, rows } = JSON.parse(held.textContent);
  const names = Object.keys(options);
  const [PIECES, OTHER, TOLD, NEIGHBOURS] = [0, 1, 2, 3].map((n) => names.length + n);
  const SIZE = 50;
  const form = byId("filters");
  const list = byId("list");
  let chosen = rows;
  let page = 0;
  let searchable = null; // made at the first search

  const element = (name, text, kind, dir) => {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    if (kind) made.className = kind;
    if (dir) made.dir = dir;
    return made;
  };
  const value = (row, name) => options[name][row[names.indexOf(name)]];

  function item(row) {
    const made = element("li");
    const meta = element("p", "", "meta");
    const outcome = value(row, "outcome");
    meta.append(element("span", outcome, "outcome " + (["succeeded", "failed"].includes(outcome) ? outcome : "skipped")), " ");
    ["recipe", "task", "model"].forEach((name, n) => { meta.append(n ? " · " : "", element("bdi", value(row, name))); });
    const text = element("p", "", "text", "auto");
    for (const piece of row[PIECES]) {
      if (typeof piece === "string") text.append(piece);
      else text.append(...["del", "ins"].map((name, n) => piece[n] && element(name, piece[n])).filter(Boolean));
    }
    made.append(meta, text);
    if (row[OTHER]) made.append(element("p", "with: " + row[OTHER], "aside", "auto"));
    row[NEIGHBOURS].forEach((near, n) => { made.append(element("p", (n ? "nearest now: " : "nearest before: ") + near, "aside", "auto")); });
    if (row[TOLD]) made.append(element("p", row[TOLD], "aside"));
    return made;
  }

  function draw() {
    const pages = Math.max(1, Math.ceil(chosen.length / SIZE));
    page = Math.min(Math.max(page, 0), pages - 1);
    list.replaceChildren(...chosen.slice(page * SIZE, (page + 1) * SIZE).map(item));
    byId("count").textContent = chosen.length.toLocaleString("en") + " of " + rows.length.toLocaleString("en") + " examples";
    byId("place").textContent = "page " + (page + 1) + " of " + pages;
    byId("before").disabled = page === 0;
    byId("after").disabled = page === pages - 1;
    byId("pages").hidden = pages === 1;
    byId("save").disabled = chosen.length === 0;
  }

  const words = (row) => row[PIECES].map((piece) => (typeof piece === "string" ? piece : piece.join(" "))).join("");
  function filter() {
    const wanted = names.map((name) => form.elements.namedItem(name).value);
    const sought = form.elements.namedItem("words").value.trim().toLowerCase();
    if (sought && !searchable) {
      searchable = rows.map((row) => [words(row), original(row), changed(row), row[OTHER], row[TOLD], ...row[NEIGHBOURS]].join("\n").toLowerCase());
    }
    chosen = rows.filter((row, at) =>
      wanted.every((number, n) => number === "" || row[n] === Number(number)) && (!sought || searchable[at].includes(sought)));
    page = 0;
    draw();
  }

  const original = (row) => row[PIECES].map((piece) => (typeof piece === "string" ? piece : piece[0])).join("");
  const changed = (row) => row[PIECES].map((piece) => (typeof piece === "string" ? piece : piece[1])).join("");
  // A spreadsheet computes texts that start like a formula, after any blanks; an apostrophe prevents it.
  const quoted = (text) => '"' + (/^(?:[\s\u0000-\u0020\u007f-\u00a0\u200b-\u200f\ufeff]*[=+\-@＝＋－＠]|[\t\r\n])/.test(text) ? "'" : "") + text.replaceAll('"', '""') + '"';
  function save() {
    const lines = [[...names, "original", "adversarial", "with", "verdicts"].join(",")];
    for (const row of chosen) {
      const cells = [...names.map((name) => value(row, name)), original(row), changed(row), row[OTHER], row[TOLD]];
      lines.push(cells.map(quoted).join(","));
    }
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = "examples.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  let waiting = 0;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", filter);
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 150); });
  byId("save").addEventListener("click", save);
  const turn = (by) => { page += by; draw(); byId("examples").scrollIntoView(); };
  byId("before").addEventListener("click", () => turn(-1));
  byId("after").addEventListener("click", () => turn(1));
  form.hidden = false;
  filter();
})();
