"use strict";
(() => {
  const data = JSON.parse(document.getElementById("page-data").textContent);
  document.documentElement.classList.add("js");
  const courseSpec = JSON.parse(document.getElementById("sweeper-charts").textContent).course;
  const { make, short } = sweeper;

  /* Draw the charts of a trial's course into a box. */
  const WIDE_RANGE = 8;
  function charts(box, course) {
    if (!course.step || !course.step.length) {
      box.append(make("p", { class: "fine" }, "No training history was recorded for this trial."));
      return;
    }
    const x = course.epoch && course.epoch.every((v) => v !== null) ? course.epoch : course.step;
    const varies = (y) => y && new Set(y.filter((v) => v !== null)).size > 1;
    for (const item of data.charts) {
      const drawn = item.lines.filter(([key]) => course[key]);
      if (!drawn.some(([key]) => item.losses || varies(course[key]) || key.startsWith("grad_"))) continue;
      const start = item.losses && x[0] > 0 && drawn.every(([key]) => data.baseline[key] !== undefined);
      const lines = drawn.flatMap(([key, name]) => [
        ...(start ? [{ x: 0, y: data.baseline[key], name }] : []), ...x.map((at, k) => ({ x: at, y: course[key][k], name })),
      ]).filter((point) => point.y !== null);
      const guess = item.losses && data.guess !== null ? [{ y: data.guess }] : [];
      const all = [...lines, ...guess].map((point) => point.y), low = Math.min(...all);
      const isLog = item.log && low > 0 && Math.max(...all) / low > WIDE_RANGE;
      const spec = structuredClone(courseSpec), title = isLog ? `${item.title}, log scale` : item.title;
      spec.layer[0].encoding.x.title = x === course.epoch ? "epoch" : "step";
      for (const layer of spec.layer) Object.assign(layer.encoding.y, { title: null, scale: sweeper.scale(isLog ? "log" : "linear") });
      spec.title = title;
      spec.datasets = { lines, guess_y: guess };
      const node = make("div", { class: "chart vega" });
      box.append(node);
      sweeper.embed(node, spec, lines.length, `${title}: ${drawn.map(([, name]) => name).join(", ")}`);
    }
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
    const inside = make("div", { class: "inside" });
    const settings = Object.entries(trial.settings).map(([name, value]) => `${name} ${short(value)}`).join(", ");
    if (settings) inside.append(make("p", { class: "fine" }, settings));
    if (trial.error) inside.append(make("p", { class: "notice" }, trial.error));
    for (const [label, text] of [["spec hash ", trial.spec_hash], ["checkpoint ", trial.checkpoint]]) {
      if (text) inside.append(make("p", { class: "fine" }, label, make("code", {}, text)));
    }
    const box = make("div", { class: "charts" });
    inside.append(box);
    row.after(make("tr", { class: "detail" }, make("td", { colspan: row.cells.length }, inside)));
    charts(box, trial.course);
    row.classList.add("open");
    row.querySelector("button").setAttribute("aria-expanded", "true");
  }
  for (const row of rows) row.addEventListener("click", () => {
    if (!String(getSelection())) (row.classList.contains("open") ? close : open)(row);
  });

  /* Sorting: numbers by value, empty cells last in both directions. */
  const headers = section ? [...section.querySelectorAll(".window thead th")] : [];
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

  /* Open the row of a trial whose link was clicked. */
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
