"use strict";
// Texts are only set as textContent: nothing from an entry is parsed as markup.
(function () {
  const byId = (id) => document.getElementById(id);
  const { columns, entries } = JSON.parse(byId("board-data").textContent);
  const place = Object.fromEntries(columns.map((column, at) => [column.name, at]));
  const entry = Object.fromEntries(entries.map((one) => [one.name, one]));
  const table = byId("board");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const number = (value, column) => value.toLocaleString("en", { minimumFractionDigits: column.digits, maximumFractionDigits: column.digits });
  const valueIn = (name, column) => { const held = entry[name].values[place[column]]; return held ? held.value : null; };

  // --- sorting: a button in each heading; entries without a value come last
  const heads = [...table.querySelectorAll("thead th[data-column]")];
  let sorted = { column: "quality", down: true };
  function sort() {
    const { column, down } = sorted;
    const ordered = [...rows].sort((a, b) => {
      if (column === "name") return (down ? -1 : 1) * a.dataset.name.localeCompare(b.dataset.name, "en");
      const [first, second] = [a, b].map((row) => valueIn(row.dataset.name, column));
      if (first === null || second === null) return (first === null) - (second === null);
      return down ? second - first : first - second;
    });
    body.append(...ordered);
    for (const head of heads) {
      head.setAttribute("aria-sort", head.dataset.column === column ? (down ? "descending" : "ascending") : "none");
    }
  }
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const column = head.dataset.column;
      const small = ["name", "parameters", "bytes", "dimensions"].includes(column); // here less comes first
      sorted = { column, down: sorted.column === column ? !sorted.down : !small };
      sort();
    });
  }

  // --- filters
  const form = byId("filters");
  let seen = entries.map((one) => one.name);
  function filter() {
    const { words, kind, made } = form.elements;
    const sought = words.value.trim().toLowerCase();
    const groups = new Set([...form.querySelectorAll("[name=group]:checked")].map((box) => box.value));
    seen = [];
    for (const row of rows) {
      const one = entry[row.dataset.name];
      const fits = (!kind.value || one.kind === kind.value) && (!made.value || (made.value === "yes") === Boolean(one.base)) &&
        (!sought || row.cells[0].textContent.toLowerCase().includes(sought));
      row.hidden = !fits;
      if (fits) seen.push(one.name);
    }
    for (const cell of table.querySelectorAll("[data-group]")) cell.hidden = !groups.has(cell.dataset.group);
    byId("count").textContent = seen.length + " of " + rows.length + " encoders";
    byId("nothing").hidden = seen.length > 0;
    draw();
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", filter);

  // --- the chart
  const axes = byId("axes");
  for (const [name, chosen] of [["x", "quality"], ["y", "robustness"]]) {
    const select = axes.elements.namedItem(name);
    for (const column of columns) select.add(new Option(column.title, column.name, false, column.name === chosen));
  }
  axes.addEventListener("submit", (event) => event.preventDefault());
  axes.addEventListener("change", () => draw());
  const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [860, 500, 62, 24, 18, 52];
  const COLOURS = { transformer: "c0", static: "c1", function: "c2", search: "c3" };
  const svg = (name, values, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(values)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    return made;
  };
  const MARKS = {
    transformer: (x, y) => svg("circle", { cx: x, cy: y, r: 6 }),
    static: (x, y) => svg("rect", { x: x - 5.5, y: y - 5.5, width: 11, height: 11 }),
    function: (x, y) => svg("polygon", { points: [[x, y - 7], [x + 7, y + 5], [x - 7, y + 5]].join(" ") }),
    search: (x, y) => svg("polygon", { points: [[x, y - 8], [x + 8, y], [x, y + 8], [x - 8, y]].join(" ") }),
  };
  function mark(one, x, y) {
    const made = MARKS[one.kind](x, y);
    made.setAttribute("class", "mark " + (one.base ? "hollow" : "solid"));
    return made;
  }
  function scale(points, axis, from, to) {
    const ends = points.flatMap((point) => [point[axis].low ?? point[axis].value, point[axis].high ?? point[axis].value]);
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    const room = (high - low || 1) * 0.06;
    const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500].find((size) => (high - low + 2 * room) / size <= 7) || 1000;
    const ticks = [];
    for (let at = Math.ceil((low - room) / step); at * step <= high + room; at += 1) ticks.push(at * step);
    return { of: (value) => from + ((value - low + room) / (high - low + 2 * room)) * (to - from), ticks, step };
  }
  function told(point, x, y) {
    const part = (value, column) => column.title + " " + number(value.value, column) +
      (value.low === undefined ? "" : " (" + number(value.low, column) + " to " + number(value.high, column) + ")");
    const made = point.one.base ? "; made from " + point.one.base : "";
    return point.one.name + ": " + part(point.x, x) + ", " + part(point.y, y) + made;
  }
  function choose(name) {
    for (const one of document.querySelectorAll(".chosen")) one.classList.remove("chosen");
    if (name === null) return;
    for (const row of rows) if (row.dataset.name === name) row.classList.add("chosen");
  }
  function label(group, point, boxes) {
    const width = point.one.name.length * 6.7;
    const spots = [[11, 4, "start"], [-11, 4, "end"], [0, -12, "middle"], [0, 21, "middle"], [11, -9, "start"], [11, 18, "start"], [-11, -9, "end"], [-11, 18, "end"]];
    const boxAt = ([right, down, anchor]) => {
      const left = point.px + right - (anchor === "end" ? width : anchor === "middle" ? width / 2 : 0);
      return [left, point.py + down - 11, left + width, point.py + down + 3];
    };
    const meets = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
    const free = (box) => box[0] >= LEFT && box[2] <= WIDTH - 2 && box[1] >= 2 && !boxes.some((other) => meets(box, other));
    const spot = spots.find((one) => free(boxAt(one)));
    if (!spot) return; // the name is in the status line, and in the table
    boxes.push(boxAt(spot));
    group.append(svg("text", { x: point.px + spot[0], y: point.py + spot[1], "text-anchor": spot[2], class: "name" }, point.one.name));
  }
  function draw() {
    const [x, y] = ["x", "y"].map((name) => columns[place[axes.elements.namedItem(name).value]]);
    byId("chart-title").textContent = x.title + " against " + y.title.toLowerCase();
    const points = entries.filter((one) => seen.includes(one.name))
      .map((one) => ({ one, x: one.values[place[x.name]], y: one.values[place[y.name]] })).filter((point) => point.x && point.y);
    const absent = seen.length - points.length;
    byId("point").textContent = absent ? absent + (absent === 1 ? " encoder has" : " encoders have") + " no value in one of the two columns." : "";
    const chart = svg("svg", { viewBox: "0 0 " + WIDTH + " " + HEIGHT, class: "chart", role: "group", "aria-label": x.title + " and " + y.title + " of " + points.length + " encoders" });
    byId("scatter").replaceChildren(chart);
    if (!points.length) return;
    const across = scale(points, "x", LEFT, WIDTH - RIGHT);
    const up = scale(points, "y", HEIGHT - BOTTOM, TOP);
    const told_ticks = (axis) => (value) => value.toLocaleString("en", { maximumFractionDigits: axis.step < 1 ? 1 : 0 });
    for (const value of across.ticks) {
      const at = across.of(value);
      chart.append(svg("line", { x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM, class: "grid" }),
        svg("text", { x: at, y: HEIGHT - BOTTOM + 18, "text-anchor": "middle", class: "tick" }, told_ticks(across)(value)));
    }
    for (const value of up.ticks) {
      const at = up.of(value);
      chart.append(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at, class: "grid" }),
        svg("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end", class: "tick" }, told_ticks(up)(value)));
    }
    chart.append(svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 10, "text-anchor": "middle", class: "axis" }, x.title + (x.group === "cost" ? "" : ", points")),
      svg("text", { transform: "translate(16 " + (TOP + HEIGHT - BOTTOM) / 2 + ") rotate(-90)", "text-anchor": "middle", class: "axis" }, y.title + (y.group === "cost" ? "" : ", points")));
    for (const point of points) [point.px, point.py] = [across.of(point.x.value), up.of(point.y.value)];
    const at = Object.fromEntries(points.map((point) => [point.one.name, point]));
    for (const point of points) {
      const from = at[point.one.base];
      if (from) chart.append(svg("line", { x1: from.px, y1: from.py, x2: point.px, y2: point.py, class: "made" }));
    }
    const boxes = points.map((point) => [point.px - 8, point.py - 8, point.px + 8, point.py + 8]);
    for (const point of points) {
      const group = svg("g", { class: "point " + COLOURS[point.one.kind], tabindex: 0, role: "img", "aria-label": told(point, x, y), "data-name": point.one.name });
      if (point.x.low !== undefined) group.append(svg("line", { x1: across.of(point.x.low), x2: across.of(point.x.high), y1: point.py, y2: point.py, class: "ends" }));
      if (point.y.low !== undefined) group.append(svg("line", { x1: point.px, x2: point.px, y1: up.of(point.y.low), y2: up.of(point.y.high), class: "ends" }));
      group.append(mark(point.one, point.px, point.py));
      label(group, point, boxes);
      const show = () => { byId("point").textContent = told(point, x, y); choose(point.one.name); group.classList.add("chosen"); };
      group.addEventListener("focus", show);
      group.addEventListener("pointerenter", show);
      group.addEventListener("blur", () => choose(null));
      group.addEventListener("pointerleave", () => choose(null));
      const go = () => { const own = byId("entry-" + point.one.name); own.open = true; own.scrollIntoView(); own.querySelector("summary").focus(); };
      group.addEventListener("click", go);
      group.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); go(); } });
      chart.append(group);
    }
  }
  for (const [name, base] of Object.keys(MARKS).flatMap((kind) => [[kind, null], [kind, "other"]])) {
    if (!entries.some((one) => one.kind === name && Boolean(one.base) === Boolean(base))) continue;
    const key = svg("svg", { viewBox: "0 0 20 20", class: "swatch " + COLOURS[name], "aria-hidden": "true" });
    key.append(mark({ kind: name, base }, 10, 10));
    const item = document.createElement("li");
    item.append(key, " " + name + (base ? ", made from another entry (dotted line)" : ""));
    byId("legend").append(item);
  }

  // --- a link to an entry opens it
  const open = () => { const own = location.hash.startsWith("#entry-") && byId(decodeURIComponent(location.hash.slice(1))); if (own) { own.open = true; own.scrollIntoView(); } };
  addEventListener("hashchange", open);

  for (const group of new Set(columns.map((column) => column.group))) {
    for (const row of table.rows) row.querySelector('[data-group="' + group + '"]')?.classList.add("first");
  }
  axes.hidden = false;
  form.hidden = false;
  sort();
  filter();
  open();
})();
