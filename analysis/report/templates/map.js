/* The map: a scatter plot of the candidates over any two columns, and parallel coordinates. Both show and change the
   selection (selection.js). */
(() => {
  const section = document.getElementById("map");
  if (!section) return;
  const { sweeper } = window;
  const { name, columnOf, ofProblem } = sweeper;
  const { problems, trials, rows, columns, values } = sweeper.data;
  const byId = (id) => document.getElementById(id);
  const specs = JSON.parse(byId("sweeper-charts").textContent);
  const MANY_TRIALS = 40, MAX_GROUPS = 7, MAX_AXES = 8, MANY_TIMES = 50, NARROW = 600;

  /* What is shown: the columns of the axes and their scales. A reload keeps them. */
  const view = { x: null, y: null, xScale: null, yScale: null, trails: false, ...sweeper.kept("map") };
  const measured = (name) => values[name].some((value, i) => value !== null && ofProblem(i));
  const own = () => columns.filter((column) => measured(column.name));
  function settle() {
    const names = own().map((column) => column.name);
    const [x, y] = [...problems[sweeper.problem].axes.filter((name) => names.includes(name)), ...names];
    if (!names.includes(view.x)) view.x = x;
    if (!names.includes(view.y)) view.y = [...problems[sweeper.problem].axes, ...names].find((name) => names.includes(name) && name !== view.x) || y;
    view.xScale ??= usualScale(view.x);
    view.yScale ??= usualScale(view.y);
  }
  /* A few ruined models have a loss that is hundreds of times that of the good ones. */
  function usualScale(column) {
    const known = values[column].filter((value, i) => value !== null && ofProblem(i));
    const [low, high] = known.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
    return columnOf[column].better === "lower" && low > 0 && high / low > MANY_TIMES ? "log" : "linear";
  }

  const counts = new Map();
  for (const i of rows.trial.keys()) counts.set(trials.method[rows.trial[i]], (counts.get(trials.method[rows.trial[i]]) || 0) + 1);
  const groups = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, MAX_GROUPS);
  const group = (i) => groups.includes(trials.method[rows.trial[i]]) ? trials.method[rows.trial[i]] : "other methods";
  const title = (column) => `${column.label}${column.unit ? ` (${column.unit})` : ""}${column.better ? `, ${column.better} is better` : ""}`;

  const drawable = (value, scale) => value !== null && value !== undefined && (scale !== "log" || value > 0);
  const at = (i) => ({ x: values[view.x][i], y: values[view.y][i] });
  const isDrawn = ({ x, y }) => drawable(x, view.xScale) && drawable(y, view.yScale);
  const points = () => [...rows.trial.keys()].filter((i) => ofProblem(i) && isDrawn(at(i)));

  /* The staircase of the models that no other one beats on the two axes; null if an axis has no better direction. */
  function frontier(drawn) {
    const signs = [view.x, view.y].map((column) => ({ higher: -1, lower: 1 })[columnOf[column].better]);
    if (!signs[0] || !signs[1] || view.x === view.y) return null;
    const cost = (i) => [signs[0] * values[view.x][i], signs[1] * values[view.y][i]];
    const sorted = [...drawn].sort((a, b) => cost(a)[0] - cost(b)[0] || cost(a)[1] - cost(b)[1]);
    const members = [];
    let best = Infinity;
    for (const i of sorted) if (cost(i)[1] < best) { best = cost(i)[1]; members.push(i); }
    return members;
  }
  function stairs(members) {
    const corners = [];
    members.forEach((i, k) => {
      if (k) corners.push({ x: at(i).x, y: at(members[k - 1]).y });
      corners.push(at(i));
    });
    return corners.map((corner, order) => ({ ...corner, order }));
  }

  /* Where a score of an axis was also measured after an attack: from the score to the score after the attack. */
  function arrows(drawn) {
    const attacked = columns.filter((column) => column.attacked && [view.x, view.y].includes(column.attacked));
    const ending = ({ name }) => name.slice(name.indexOf("_after_") + "_after_".length);
    const after = (axis, attack, i) => {
      const column = attacked.find((item) => item.attacked === axis && ending(item) === attack);
      return (column && values[column.name][i]) ?? values[axis][i];
    };
    return [...new Set(attacked.map(ending))].flatMap((attack) => drawn.map((i) => ({
      ...at(i), x2: after(view.x, attack, i), y2: after(view.y, attack, i), attack, name: `${name(i)} after ${attack}`,
    })).filter((arrow) => isDrawn({ x: arrow.x2, y: arrow.y2 }) && (arrow.x !== arrow.x2 || arrow.y !== arrow.y2)));
  }

  /* The loss of a random guess, unless all models on the axis are below half of it. */
  function guess(column, drawn) {
    const { guess: loss } = problems[sweeper.problem];
    return loss !== null && columnOf[column].loss && drawn.some((i) => values[column][i] > loss / 2) ? [loss] : [];
  }

  /* Functions that estimate where a point is drawn, in pixels from the left and from below. */
  function pixels(drawn, others) {
    const along = (axis, scale, size) => {
      const map = scale === "log" ? Math.log : (value) => value, known = [...[...drawn.map(at), ...others].map((item) => item[axis]), ...guess(view[axis], drawn)].map(map);
      const low = known.reduce((a, b) => Math.min(a, b), Infinity), high = known.reduce((a, b) => Math.max(a, b), -Infinity);
      return (item) => size * (map(item[axis]) - low) / (high - low || 1);
    };
    return [along("x", view.xScale, section.clientWidth), along("y", view.yScale, specs.map.height)];
  }
  /* Labels of near points stand below one another: `dy` is the distance of a label from its point, in pixels. Labels
     stand to the right of their points, except for points at the right edge. */
  const LABEL = { width: 90, height: 14, dy: -9 };
  function placed(marks, across, up) {
    const taken = [];
    return marks.map((mark) => {
      const side = across(mark) > section.clientWidth - LABEL.width ? "left" : "right", left = across(mark) - (side === "left" ? LABEL.width : 0);
      let dy = LABEL.dy;
      while (taken.some((other) => Math.abs(other.left - left) < LABEL.width && Math.abs(other.top - (dy - up(mark))) < LABEL.height)) dy += 1;
      taken.push({ left, top: dy - up(mark) });
      return { ...mark, dy, side };
    });
  }

  const chosen = () => sweeper.chosen?.[sweeper.problem] ?? problems[sweeper.problem].chosen;
  const isRecommended = () => (sweeper.recommended ?? problems.map((item) => item.recommended))[sweeper.problem];
  const isSelected = (i, selected) => !selected.size || selected.has(sweeper.key(i));
  function data() {
    const drawn = points(), selected = new Set(sweeper.selected), members = frontier(drawn) || [], first = new Set(members);
    const few = new Set(drawn.map((i) => rows.trial[i])).size <= MANY_TRIALS;
    const current = sweeper.current === null ? [] : [sweeper.row(sweeper.current)];
    const marked = new Set([...current, ...sweeper.pinned.map(sweeper.row), chosen()].filter((i) => i !== null && i !== undefined).map((i) => rows.trial[i]));
    const target = problems[sweeper.problem].target;
    const ring = (i, label, shape, size) => i !== null && i !== undefined && ofProblem(i) && isDrawn(at(i)) ? [{ ...at(i), label, shape, size }] : [];
    const before = { x: target[view.x], y: target[view.y] };
    const marks = [
      ...(isDrawn(before) ? [{ ...before, label: "target", shape: "diamond", size: 120 }] : []),
      ...ring(chosen(), isRecommended() ? "recommended" : "closest", "circle", 260),
      ...current.flatMap((i) => i === chosen() ? [] : ring(i, name(i), "square", 200)),
      ...sweeper.pinned.flatMap((key, k) => ring(sweeper.row(key), `pin ${k + 1}`, "triangle-up", 260)),
    ];
    const attacked = arrows(drawn), end = ({ x2, y2 }) => ({ x: x2, y: y2 });
    const [across, up] = pixels(drawn, [...marks, ...attacked.map(end)]);
    const angle = (arrow) => Math.atan2(across(end(arrow)) - across(arrow), up(end(arrow)) - up(arrow)) * 180 / Math.PI;
    return {
      models: drawn.map((i) => ({
        ...at(i), row: i, name: name(i), status: trials.status[rows.trial[i]], settings: trials.settings[rows.trial[i]], group: group(i),
        shade: !isSelected(i, selected) ? 0.12 : first.has(i) || selected.size ? 0.95 : 0.5, size: first.has(i) ? 90 : 38,
      })),
      trails: drawn.filter((i) => marked.has(rows.trial[i]) || (few && view.trails)).map((i) => ({
        ...at(i), trial: rows.trial[i], epoch: rows.epoch[i] ?? 0, group: group(i),
      })),
      frontier: stairs(members),
      guess_x: guess(view.x, drawn).map((x) => ({ x })),
      guess_y: guess(view.y, drawn).map((y) => ({ y })),
      arrows: attacked.map((arrow) => ({ ...arrow, angle: angle(arrow) })),
      points: placed(marks, across, up),
    };
  }

  /* The columns of the parallel coordinates: the objectives, the scores of the criterion, then other scores. */
  function axes() {
    const problem = problems[sweeper.problem];
    const judged = (problem.rule?.requirements || []).map((item) => item.column);
    const scores = own().filter((column) => column.better && column.score).map((column) => column.name);
    const limit = section.clientWidth < NARROW ? 5 : MAX_AXES;
    return [...new Set([...problem.axes, ...judged, ...scores])].filter((item) => scores.includes(item)).slice(0, limit);
  }
  let extents = {};
  function lines() {
    const names = axes(), selected = new Set(sweeper.selected);
    const measuredRows = [...rows.trial.keys()].filter((i) => ofProblem(i) && (rows.front[i] || rows.stored[i] || selected.has(sweeper.key(i))));
    extents = Object.fromEntries(names.map((column) => {
      const known = measuredRows.map((i) => values[column][i]).filter((value) => value !== null);
      return [columnOf[column].label, [column, known.reduce((a, b) => Math.min(a, b), Infinity), known.reduce((a, b) => Math.max(a, b), -Infinity)]];
    }));
    return measuredRows.flatMap((i) => Object.entries(extents).filter(([, [column]]) => values[column][i] !== null).map(([label, [column]]) => ({
      row: i, column: label, share: share(label, i), value: values[column][i], name: name(i), group: group(i),
      shade: i === chosen() ? 1 : !isSelected(i, selected) ? 0.06 : selected.size || rows.front[i] ? 0.8 : 0.25,
    })));
  }
  function share(label, i) {
    const [column, low, high] = extents[label];
    const part = high > low ? (values[column][i] - low) / (high - low) : 0.5;
    return columnOf[column].better === "lower" ? 1 - part : part;
  }

  const frame = (() => {
    let due = null;
    return (work) => { clearTimeout(due); due = setTimeout(work, 80); };
  })();
  const charts = {};
  let turn = 0;
  async function draw() {
    const mine = ++turn;
    const spec = structuredClone(specs.map), content = data();
    for (const layer of spec.layer) for (const [axis, column, scale] of [["x", view.x, view.xScale], ["y", view.y, view.yScale]]) {
      const channel = layer.encoding[axis];
      if (!channel) continue;
      const text = title(columnOf[column]);
      channel.title = axis === "y" || section.clientWidth < NARROW ? text.split(/, (?=\w+ is better$)/) : text;
      channel.scale = sweeper.scale(scale);
    }
    spec.datasets = content;
    const label = `${columnOf[view.y].label} against ${columnOf[view.x].label} of ${content.models.length} models. The table below has the same values.`;
    const made = await sweeper.embed(byId("map-chart"), spec, content.models.length, label);
    if (mine !== turn) return made.finalize();
    charts.map?.finalize();
    charts.map = made;
    made.view.addEventListener("click", (event, item) => {
      if (item?.datum?.row !== undefined) sweeper.select(sweeper.selected, sweeper.key(item.datum.row));
    });
    made.view.addSignalListener("brush", (_, box) => frame(() => {
      const inside = (value, [a, b]) => value >= Math.min(a, b) && value <= Math.max(a, b);
      const drawn = box.x && box.y ? points().filter((i) => inside(at(i).x, box.x) && inside(at(i).y, box.y)) : [];
      sweeper.select(drawn.map(sweeper.key), sweeper.current);
    }));
    await drawParallel(mine);
    tell();
    section.dataset.ready = String(mine);
  }
  async function drawParallel(mine) {
    const spec = structuredClone(specs.parallel), content = lines();
    byId("map-parallel-part").hidden = Object.keys(extents).length < 3 || !content.length;
    if (byId("map-parallel-part").hidden) return;
    spec.datasets = { lines: content };
    const made = await sweeper.embed(byId("map-parallel"), spec, content.length, "Parallel coordinates: a line per stored model over its scores.");
    if (mine !== turn) return made.finalize();
    charts.parallel?.finalize();
    charts.parallel = made;
    made.view.addEventListener("click", (event, item) => {
      if (item?.datum?.row !== undefined) sweeper.select(sweeper.selected, sweeper.key(item.datum.row));
    });
    made.view.addSignalListener("brush", (_, box) => frame(() => {
      const labels = box.column || [], [low, high] = box.share ? [Math.min(...box.share), Math.max(...box.share)] : [0, -1];
      const hit = [...new Set(lines().map((line) => line.row))].filter((i) => labels.length && labels.every((label) =>
        values[extents[label][0]][i] !== null && share(label, i) >= low && share(label, i) <= high));
      sweeper.select(hit.map(sweeper.key), sweeper.current);
    }));
  }
  let due = null;
  function refresh() {
    if (!charts.map) return;
    tell();
    clearTimeout(due);
    due = setTimeout(() => {
      for (const [name, content] of Object.entries(data())) charts.map.view.data(name, content);
      charts.map.view.runAsync();
      if (charts.parallel && !byId("map-parallel-part").hidden) charts.parallel.view.data("lines", lines()).runAsync();
    }, 50);
  }
  /* Say what the chart does not show. */
  function tell() {
    const all = [...rows.trial.keys()].filter(ofProblem), drawn = points(), missing = all.length - drawn.length;
    const unmeasured = all.filter((i) => values[view.x][i] === null || values[view.y][i] === null).length;
    const parts = [`${drawn.length} of ${all.length} models drawn`];
    if (unmeasured) parts.push(`${unmeasured} were not measured on both axes`);
    if (missing > unmeasured) parts.push(`${missing - unmeasured} are not above 0, so a logarithmic axis cannot show them`);
    if (!frontier(drawn)) parts.push("no frontier, because an axis has no better direction");
    const attacks = [...new Set(arrows(drawn).map((arrow) => arrow.attack))];
    byId("map-marks").textContent = [
      guess(view.x, drawn).length + guess(view.y, drawn).length ? "The dotted line is the loss of a random guess." : "",
      attacks.length ? `Arrows lead to the scores after attacks: ${attacks.join(", ")}.` : "",
    ].join(" ");
    if (sweeper.selected.length) parts.push(`${sweeper.selected.length} selected`);
    byId("map-count").textContent = `${parts.join("; ")}.`;
  }

  function options(select, items, value) {
    select.replaceChildren(...items.map(([key, text]) => Object.assign(document.createElement("option"), { value: key, textContent: text })));
    select.value = value;
  }
  function controls() {
    settle();
    const items = own().map((column) => [column.name, column.label]);
    options(byId("map-x"), items, view.x);
    options(byId("map-y"), items, view.y);
    byId("map-x-scale").value = view.xScale;
    byId("map-y-scale").value = view.yScale;
    byId("map-trails").checked = view.trails;
    const count = new Set([...rows.trial.keys()].filter(ofProblem).map((i) => rows.trial[i])).size;
    byId("map-trails").parentElement.hidden = count > MANY_TRIALS;
  }
  const change = () => { sweeper.keep("map", view); controls(); return draw(); };
  options(byId("map-problem"), problems.map((problem, k) => [k, problem.title]), sweeper.problem);
  byId("map-problem").parentElement.hidden = problems.length < 2;
  byId("map-problem").addEventListener("input", (event) => sweeper.show(Number(event.target.value)));
  document.addEventListener("sweeper:problem", change);
  for (const [id, field] of [["map-x", "x"], ["map-y", "y"], ["map-x-scale", "xScale"], ["map-y-scale", "yScale"]]) {
    byId(id).addEventListener("input", (event) => {
      view[field] = event.target.value;
      if (field.length === 1) view[`${field}Scale`] = null;
      change();
    });
  }
  byId("map-trails").addEventListener("input", (event) => { view.trails = event.target.checked; change(); });
  byId("map-clear").addEventListener("click", () => { sweeper.select([], null); draw(); });
  for (const kind of ["sweeper:select", "sweeper:pin", "sweeper:chosen"]) document.addEventListener(kind, refresh);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  if (!own().length) { byId("map-count").textContent = "No score of these models was measured."; section.dataset.ready = "0"; return; }
  queueMicrotask(change);  /* after answers.js has pinned the first models */
})();
