/* The decision: thresholds that can be moved, the model that the rule of `pick` then chooses (rule.js), the command
   that picks it, and a table of the frontier. */
(() => {
  const section = document.getElementById("decide");
  if (!section) return;
  const { sweeper } = window, { make, short, name, columnOf, ofProblem } = sweeper;
  const { problems, trials, rows, columns, values } = sweeper.data;
  const byId = (id) => document.getElementById(id);
  const MAX_LISTED = 100;
  const label = (name) => columnOf[name]?.label ?? name.replaceAll("_", " ");
  const problem = () => problems[sweeper.problem];
  /* The moved thresholds of each problem; null for the threshold of the sweep. */
  const moved = problems.map((item, k) => (sweeper.kept("thresholds") || [])[k] || (item.rule?.requirements || []).map(() => null));
  const OUTCOMES = {
    good: "Recommended", missed: "No model meets all thresholds. The closest is", not_known: "No model is known to meet the thresholds. The best known model is",
  };

  /* The name of a model, as a link to the row of its trial, which has the course of the training. */
  function linked(i) {
    const line = document.querySelector(`#trials tr[data-trial="${CSS.escape(trials.id[rows.trial[i]])}"]`);
    return line ? make("a", { href: `#${line.id}` }, name(i)) : name(i);
  }
  const quoted = (text) => /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
  function command(i) {
    const k = rows.trial[i];
    if (trials.folder[k] === null) return null;
    return `python -m sweeper pick ${quoted(trials.folder[k])} --trial ${quoted(trials.own_id[k])}${rows.epoch[i] === null ? "" : ` --epoch ${rows.epoch[i]}`}`;
  }

  let result = null;
  function decide() {
    const { rule } = problem();
    result = rule ? decideByRule(rule, moved[sweeper.problem]) : null;
    const index = result ? result.index : null;
    sweeper.chosen = problems.map((item, k) => k !== sweeper.problem ? item.chosen : !rule ? item.chosen : index === null ? null : rule.rows[index]);
    sweeper.recommended = problems.map((item, k) => k === sweeper.problem && result ? result.outcome === "good" : item.recommended);
    show();
    document.dispatchEvent(new CustomEvent("sweeper:chosen"));
  }
  const chosenRow = () => sweeper.chosen[sweeper.problem];

  /* The thresholds of a row: the labels of the missed and of the unknown ones; null if the rule does not judge the row. */
  function misses(i) {
    const position = result ? problem().rule.rows.indexOf(i) : -1;
    if (position < 0) return null;
    const named = (met) => result.judged[position].flatMap((item, j) => item.met === met ? [`${label(problem().rule.requirements[j].column)}${problem().rule.requirements[j].preferred ? " (preferred)" : ""}`] : []);
    const isKnown = result.judged[position].some((item) => item.met !== null);
    return { missed: named(false), unknown: named(null), good: result.good[position], isKnown };
  }

  function verdict(i) {
    const found = misses(i), fine = (text) => make("div", { class: "fine" }, text);
    if (found === null) return [fine(rows.stored[i] ? "not judged" : "not stored")];
    if (!found.isKnown) return [fine("not measured")];
    if (found.good && !found.missed.length) return [make("span", { class: "met" }, "✓ none")];
    if (!found.missed.length && !found.unknown.length) return [fine("does not show that it forgot and kept")];
    return [
      found.missed.length ? make("span", { class: "missed words" }, `✗ ${found.missed.join(", ")}`) : null,
      found.unknown.length ? fine(`not measured: ${found.unknown.join(", ")}`) : null,
    ];
  }

  function show() {
    const i = chosenRow(), outcome = byId("decide-outcome");
    const isMoved = moved[sweeper.problem].some((value) => value !== null);
    outcome.replaceChildren();
    if (i === null || i === undefined) outcome.append("There is no model to choose.");
    else {
      outcome.append(`${result ? OUTCOMES[result.outcome] : "The report shows"} `, make("strong", {}, name(i)), ` (${trials.settings[rows.trial[i]]})`);
      if (result) outcome.append(`: ${result.eligible > 1 ? `${result.decision} (of ${result.eligible} models that could be chosen)` : "the only model that could be chosen"}${result.ties.length ? `; ${result.ties.length} cannot be distinguished from it` : ""}`);
      outcome.append(".");
      if (isMoved) outcome.append(" The thresholds were moved, so this may differ from the answer above.");
    }
    const shown = sweeper.current === null ? i : sweeper.row(sweeper.current);
    const text = shown === null || shown === undefined ? null : command(shown);
    byId("decide-command").textContent = text ?? "";
    byId("decide-command-of").replaceChildren(...(shown === null || shown === undefined ? [] : [linked(shown), text === null ? " is from a table without checkpoints, so it cannot be picked."
      : `${shown === i ? "" : " (clicked)"}${rows.stored[shown] ? "" : "; its checkpoint was not kept, so the command lists the stored ones"}:`]));
    byId("decide-copy").hidden = text === null;
    byId("decide-copied").textContent = "";
    const pin = byId("decide-pin");
    pin.hidden = shown === null || shown === undefined;
    pin.textContent = !pin.hidden && sweeper.pinned.includes(sweeper.key(shown)) ? "Unpin" : "Pin";
    pin.dataset.row = shown ?? "";
    byId("decide-reset").disabled = !isMoved;
    table();
  }

  function thresholds() {
    const { rule } = problem(), box = byId("decide-thresholds"), own = moved[sweeper.problem];
    box.replaceChildren();
    byId("decide-reset").hidden = !rule;
    byId("decide-why").textContent = rule ? "" : problem().reason;
    (rule?.requirements || []).forEach((item, j) => {
      const bounds = [...new Set(rule.targets.map((target) => target.bounds[j]))].filter((bound) => bound !== null);
      const known = [...item.values, ...bounds, ...rule.targets.map((target) => target.scores[j])].filter((value) => value !== null);
      const low = item.range[0] ?? Math.min(0, ...known), high = item.range[1] ?? Math.max(...known, low + 1e-9);
      const value = own[j] ?? bounds[0];
      const id = `threshold-${j}`;
      const text = `${label(item.column)} ${{ "<": "below", "<=": "at most", ">": "above", ">=": "at least" }[item.sign]}${item.preferred ? " (preferred)" : ""}`;
      const range = make("input", { type: "range", id, min: low, max: high, step: (high - low) / 200 });
      const number = make("input", { type: "number", min: low, max: high, step: "any", "aria-label": `${text}, as a number` });
      const count = make("span", { class: "fine" });
      const update = () => {
        const met = result.judged.filter((model) => model[j].met === true).length, all = result.judged.filter((model) => model[j].met !== null).length;
        count.textContent = own[j] === null && !bounds.length ? "unknown target; move it to set a threshold" : !all ? "measured on no model" : `${met} of ${all} meet it${own[j] === null && bounds.length > 1 ? "; it differs between targets" : ""}`;
      };
      range.value = value ?? low;
      number.value = value === undefined ? "" : Number(value.toPrecision(4));
      const move = (input, other) => {
        if (input.value === "") return;
        own[j] = Number(input.value);
        other.value = input.value;
        sweeper.keep("thresholds", moved);
        decide();
        for (const item of box.children) item.update();
      };
      range.addEventListener("input", () => move(range, number));
      number.addEventListener("input", () => move(number, range));
      box.append(Object.assign(make("div", { class: "threshold" }, make("label", { for: id }, text), range, number, count), { update }));
      update();
    });
  }

  function table() {
    const selected = sweeper.selected.map(sweeper.row).filter(ofProblem);
    const own = [...rows.trial.keys()].filter(ofProblem);
    const chosen = chosenRow(), isFiltered = selected.length > 0;
    const listed = isFiltered ? selected : own.filter((i) => rows.front[i] || i === chosen);
    const [first] = problem().axes;
    const sign = columnOf[first]?.better === "higher" ? -1 : 1;
    if (columnOf[first]) listed.sort((a, b) => (b === chosen) - (a === chosen) || sign * (values[first][a] - values[first][b]));
    const shown = listed.slice(0, MAX_LISTED);
    const names = columns.filter((column) => column.score && shown.some((i) => values[column.name][i] !== null)).map((column) => column.name);
    const judged = (problem().rule?.requirements || []).map((item) => item.column);
    const order = [...new Set([...problem().axes.filter((item) => names.includes(item)), ...judged.filter((item) => names.includes(item)), ...names])];
    byId("decide-caption").textContent = `${isFiltered ? "The selected models" : "The models on the frontier, and the chosen one"}: ${shown.length}${shown.length < listed.length ? ` of ${listed.length}` : ""}. Missed thresholds are named.`;
    byId("decide-head").replaceChildren(make("tr", {}, ...["model", "pinned", "misses", ...order.map(label)].map((text, k) => make("th", { scope: "col", class: k > 2 && "n" }, make("span", {}, text)))));
    byId("decide-body").replaceChildren(...shown.map((i) => {
      const key = sweeper.key(i), tag = sweeper.recommended[sweeper.problem] ? "recommended" : "closest";
      const pick = make("button", { type: "button", title: trials.settings[rows.trial[i]], "data-pick": key }, `${trials.id[rows.trial[i]]}${rows.epoch[i] === null ? "" : ` @ ${rows.epoch[i]}`}`);
      const pin = make("input", { type: "checkbox", checked: sweeper.pinned.includes(key), "aria-label": `pin ${name(i)}`, "data-pin": key });
      return make("tr", { class: i === chosen && "chosen", "aria-current": key === sweeper.current },
        make("th", { scope: "row" }, pick, ...(i === chosen ? [" ", make("span", { class: "tag" }, tag)] : [])),
        make("td", {}, pin),
        make("td", { class: "wordy" }, ...verdict(i)),
        ...order.map((column) => make("td", { class: "n" }, short(values[column][i]))));
    }));
  }

  byId("decide-body").addEventListener("click", (event) => {
    const pick = event.target.closest("[data-pick]"), pin = event.target.closest("[data-pin]");
    if (pick) sweeper.select(sweeper.selected, pick.dataset.pick);
    if (pin) (pin.checked ? sweeper.pin : sweeper.unpin)(pin.dataset.pin);
    /* The table was written again, so the focus must return to the same control. */
    const [kind, key] = pick ? ["pick", pick.dataset.pick] : pin ? ["pin", pin.dataset.pin] : [];
    if (kind) document.querySelector(`[data-${kind}="${CSS.escape(key)}"]`)?.focus();
  });
  byId("decide-pin").addEventListener("click", (event) => {
    const key = sweeper.key(Number(event.target.dataset.row));
    (sweeper.pinned.includes(key) ? sweeper.unpin : sweeper.pin)(key);
  });
  byId("decide-reset").addEventListener("click", () => {
    moved[sweeper.problem].fill(null);
    sweeper.keep("thresholds", moved);
    decide();
    thresholds();
  });
  byId("decide-copy").addEventListener("click", async () => {
    const node = byId("decide-command");
    let done = false;
    try { await navigator.clipboard.writeText(node.textContent); done = true; } catch {
      getSelection().selectAllChildren(node);
      done = document.execCommand("copy");
    }
    byId("decide-copied").textContent = done ? "copied" : "select the command and copy it";
  });
  document.addEventListener("sweeper:select", show);
  document.addEventListener("sweeper:pin", show);
  document.addEventListener("sweeper:problem", () => { decide(); thresholds(); });
  decide();
  thresholds();
})();
