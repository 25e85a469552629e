"use strict";
(() => {
  const data = JSON.parse(document.getElementById("page-data").textContent);
  document.documentElement.classList.add("js");
  const SVG = "http://www.w3.org/2000/svg";
  const make = (name, attributes, text) => {
    const svg = ["svg", "line", "polyline", "text"].includes(name);
    const node = svg ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const short = (x) => {
    if (typeof x !== "number") return String(x);
    if (x === 0) return "0";
    const size = Math.abs(x);
    return size >= 1e-3 && size < 1e5 ? String(Number(x.toPrecision(3))) : x.toExponential(2).replace(/\.?0+e/, "e");
  };

  /* A small line chart. Each line is {name, y}, and all lines share x. */
  function chart(title, x, lines, { log = true, guide = null, xName = "epoch" } = {}) {
    const W = 360, H = 190, L = 58, R = 74, T = 8, B = 30;
    const all = [...lines.flatMap((line) => line.y), guide].filter((v) => v !== null && Number.isFinite(v));
    if (!all.length) return null;
    let low = Math.min(...all), high = Math.max(...all);
    const useLog = log && low > 0 && high / low > 8;
    const map = useLog ? Math.log10 : (v) => v;
    if (low === high) { low -= Math.abs(low) * 0.1 || 0.1; high += Math.abs(high) * 0.1 || 0.1; }
    const x0 = x[0], x1 = x.at(-1) === x0 ? x0 + 1 : x.at(-1);
    const px = (v) => L + ((v - x0) / (x1 - x0)) * (W - L - R);
    const py = (v) => H - B - ((map(v) - map(low)) / (map(high) - map(low))) * (H - T - B);
    const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
    const write = (text, x, y, anchor, cls = "") => svg.append(make("text", { x, y, "text-anchor": anchor, class: cls }, text));
    const across = (cls, v) => svg.append(make("line", { class: cls, x1: L, x2: W - R, y1: py(v), y2: py(v) }));
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const v = useLog ? low * (high / low) ** share : low + share * (high - low);
      across("axis", v);
      write(short(v), L - 6, py(v) + 4, "end");
    }
    write(short(x0), px(x0), H - B + 15, "start");
    write(short(x1), px(x1), H - B + 15, "end");
    write(xName, (L + W - R) / 2, H - B + 15, "middle");
    if (guide !== null) across("guide", guide);
    const labels = guide === null ? [] : [{ name: "guess", at: py(guide) + 4 }];
    lines.forEach((line, i) => {
      const known = x.map((v, k) => [v, line.y[k]]).filter((p) => p[1] !== null && (!useLog || p[1] > 0));
      if (!known.length) return;
      svg.append(make("polyline", { class: `s${i}`, points: known.map((p) => `${px(p[0]).toFixed(1)},${py(p[1]).toFixed(1)}`).join(" ") }));
      labels.push({ cls: `s${i}`, name: line.name, at: py(known.at(-1)[1]) + 4 });
    });
    /* The labels are at the ends of the lines. Overlapping labels are moved apart. */
    labels.sort((a, b) => a.at - b.at);
    labels.forEach((label, k) => {
      if (k) label.at = Math.max(label.at, labels[k - 1].at + 13);
      write(label.name, W - R + 6, label.at, "start", label.cls);
    });
    const box = make("div", { class: "chart" });
    box.append(make("h4", {}, useLog ? `${title}, log scale` : title), svg);
    return box;
  }

  function charts(course) {
    const box = make("div", { class: "charts" });
    if (!course.step || !course.step.length) {
      box.append(make("p", { class: "fine" }, "No training history was recorded for this trial."));
      return box;
    }
    const x = course.epoch && course.epoch.every((v) => v !== null) ? course.epoch : course.step;
    const xName = x === course.epoch ? "epoch" : "step";
    const varies = (y) => y && new Set(y.filter((v) => v !== null)).size > 1;
    const add = (...args) => { const node = chart(...args); if (node) box.append(node); };
    for (const item of data.charts) {
      const drawn = item.lines.filter(([key]) => course[key]);
      if (!drawn.some(([key]) => item.losses || varies(course[key]) || key.startsWith("grad_"))) continue;
      const start = item.losses && x[0] > 0 && drawn.every(([key]) => data.baseline[key] !== undefined);
      const lines = drawn.map(([key, name]) => ({ name, y: start ? [data.baseline[key], ...course[key]] : course[key] }));
      add(item.title, start ? [0, ...x] : x, lines, { log: item.log, guide: item.losses ? data.guess : null, xName });
    }
    return box;
  }

  const section = document.getElementById("trials");
  const body = section && section.querySelector("tbody");
  const rows = body ? [...body.querySelectorAll("tr.line")] : [];

  function close(row) {
    const next = row.nextElementSibling;
    if (next && next.classList.contains("detail")) next.remove();
    row.classList.remove("open");
    row.querySelector("button").setAttribute("aria-expanded", "false");
  }
  function unfold(node) {
    for (let part = node.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  }
  function open(row) {
    unfold(row);
    const trial = data.trials[row.dataset.trial];
    const detail = make("tr", { class: "detail" });
    const cell = make("td", { colspan: row.cells.length });
    const inside = make("div", { class: "inside" });
    const settings = Object.entries(trial.settings).map(([name, value]) => `${name} ${short(value)}`).join(", ");
    if (settings) inside.append(make("p", { class: "fine" }, settings));
    if (trial.error) inside.append(make("p", { class: "notice" }, trial.error));
    for (const [label, text] of [["spec hash ", trial.spec_hash], ["checkpoint ", trial.checkpoint]]) if (text) {
      const line = make("p", { class: "fine" }, label);
      line.append(make("code", {}, text));
      inside.append(line);
    }
    inside.append(charts(trial.course));
    cell.append(inside);
    detail.append(cell);
    row.after(detail);
    row.classList.add("open");
    row.querySelector("button").setAttribute("aria-expanded", "true");
  }
  for (const row of rows) row.addEventListener("click", () => {
    if (!String(getSelection())) (row.classList.contains("open") ? close : open)(row);
  });

  /* Sorting: numbers by value, empty cells last in both directions. */
  const headers = section ? [...section.querySelectorAll(".window th")] : [];
  headers.forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      const up = header.getAttribute("aria-sort") !== "ascending";
      headers.forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", up ? "ascending" : "descending");
      rows.forEach(close);
      const numeric = header.classList.contains("n");
      const key = (row) => row.cells[column].dataset.key;
      rows.sort((a, b) => {
        const [p, q] = [key(a), key(b)];
        if (p === "" || q === "") return (p === "") - (q === "");
        const order = numeric ? Number(p) - Number(q) : p.localeCompare(q, "en", { numeric: true });
        return up ? order : -order;
      });
      body.append(...rows);
    });
  });

  const search = document.getElementById("search");
  const status = document.getElementById("status");
  const frontOnly = document.getElementById("front-only");
  const count = document.getElementById("count");
  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      /* A word matches the start of a word in a cell: gdiff does not match ngdiff. */
      const parts = [...row.cells].flatMap((cell) => cell.textContent.toLowerCase().split(/[\s/]+/));
      const hit = words.every((word) => parts.some((part) => part.startsWith(word))) && (!status.value || row.dataset.status === status.value)
        && (!frontOnly.checked || row.classList.contains("front"));
      if (!hit) close(row);
      row.hidden = !hit;
      shown += hit;
    }
    count.textContent = `${shown} of ${rows.length} shown`;
  }
  if (rows.length) {
    for (const control of [search, status, frontOnly]) control.addEventListener("input", filter);
    filter();
  }

  /* Open the row of a trial whose point or link was clicked. */
  function show(anchor) {
    const row = document.getElementById(anchor);
    if (row && row.matches("details")) unfold(row);
    if (!row || !row.classList.contains("line")) return;
    if (row.hidden) { search.value = ""; status.value = ""; frontOnly.checked = false; filter(); }
    if (!row.classList.contains("open")) open(row);
    row.scrollIntoView({ block: "center" });
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#trial-']");
    if (!link) return;
    event.preventDefault();
    show(link.getAttribute("href").slice(1));
  });
  /* A tooltip beside a point, for mouse and keyboard: the name, settings and values of the model. */
  const tip = make("div", { id: "tip", role: "tooltip", hidden: "" });
  document.body.append(tip);
  function point(link) {
    const { name, settings, values } = link.dataset;
    tip.replaceChildren(make("strong", {}, name), make("br"), settings, make("br"), values);
    tip.hidden = false;
    place(link);
  }
  function place(link) {
    const target = link.getBoundingClientRect(), size = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, target.right + 10), innerWidth - size.width - 8);
    const top = target.bottom + 8 + size.height < innerHeight ? target.bottom + 8 : target.top - size.height - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${Math.max(8, top)}px`;
  }
  for (const link of document.querySelectorAll("figure a[href^='#trial-']")) {
    if (!link.dataset.name) continue;
    for (const kind of ["mouseenter", "focus"]) link.addEventListener(kind, () => point(link));
    for (const kind of ["mouseleave", "blur"]) link.addEventListener(kind, () => { tip.hidden = true; });
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
  /* Keyboard focus scrolls a point into view, and the tooltip moves with the point. */
  document.addEventListener("scroll", () => {
    const link = document.activeElement.closest("figure a:focus-visible");
    if (link && !tip.hidden) place(link); else tip.hidden = true;
  }, { passive: true });
  const follow = () => { if (location.hash) show(location.hash.slice(1)); };
  addEventListener("hashchange", follow);
  follow();
  /* Open all sections for printing. */
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const part of folded) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of folded) part.open = false; });
})();
