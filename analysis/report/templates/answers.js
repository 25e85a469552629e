"use strict";
/* Read the answers of pinned models side by side, also blindly. See analysis/report/answers.py for the data. */
(() => {
  const { sweeper } = window, { make } = sweeper;
  const tasks = JSON.parse(document.getElementById("answers").textContent);
  const MAX_SHOWN = 3, ROWS = 20, LABELS = ["A", "B", "C"];
  const GROUPS = { all: "all", forget: "to forget", retain: "to retain", rephrased: "in other words", neighbours: "neighbours", own: "own questions" };
  const DIFFERS = 1, FACT = 2;
  const button = (text, onclick, attributes = {}) => make("button", { type: "button", onclick, ...attributes }, text);
  const keyOf = (model) => `${model.trial}@${model.epoch ?? ""}`;
  const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
  const shuffled = (items) => {
    const found = [...items];
    for (let i = found.length - 1; i > 0; i--) {
      const j = Math.floor(Math.random() * (i + 1));
      [found[i], found[j]] = [found[j], found[i]];
    }
    return found;
  };

  /* A text with its marks. */
  function marked(text, hidden = 0) {
    const box = document.createDocumentFragment();
    const parts = typeof text === "string" ? [text, 0] : text;
    for (let i = 0; i < parts.length; i += 2) {
      const mark = parts[i + 1] & ~hidden, body = parts[i].trimEnd();
      let node = document.createTextNode(body);
      if (mark & FACT) node = make("span", { class: "fact" }, node);
      if (mark & DIFFERS) node = make("mark", {}, node);
      box.append(node, parts[i].slice(body.length));
    }
    return box;
  }

  function section(box, data) {
    const find = (name) => box.querySelector(name);
    const { questions, sets, models, target, never_saw: neverSaw } = data;
    const byKey = new Map(models.map((model) => [keyOf(model), model]));
    const name = `read-${box.dataset.index}`;
    const state = { group: "all", changed: false, sort: "disagreement", blind: null, rows: ROWS, by: null, ...sweeper.kept(name) };
    const save = () => sweeper.keep(name, state);

    /* Votes outlive the page: they are kept for this sweep until the browser's data are cleared. */
    const STORE = `sweeper-votes ${data.id}`;
    let votes = {};
    try { votes = JSON.parse(localStorage.getItem(STORE)) || {}; } catch { /* storage is off */ }
    const storeVotes = () => { try { localStorage.setItem(STORE, JSON.stringify(votes)); } catch { /* off or full */ } };

    /* The first models are pinned at first. Among several tasks, a task without a pinned model shows its first models. */
    const firstKeys = models.slice(0, MAX_SHOWN).map(keyOf);
    if (tasks.length === 1 && sweeper.kept("pinned") === undefined) firstKeys.forEach(sweeper.pin);
    function shown() {
      const pinned = sweeper.pinned.filter((key) => byKey.has(key));
      return (pinned.length || tasks.length === 1 ? pinned : firstKeys).map((key) => byKey.get(key));
    }
    /* The models in the order of the columns. A blind comparison has its own order, and ends when other models are chosen. */
    function columns() {
      const chosen = shown();
      if (!state.blind) return chosen;
      const keys = chosen.map(keyOf);
      if (state.blind.length !== keys.length || !keys.every((key) => state.blind.includes(key))) state.blind = shuffled(keys);
      return state.blind.map((key) => byKey.get(key));
    }
    function toggle(model) {
      const key = keyOf(model), keys = shown().map(keyOf);
      /* Models that are shown without being pinned stay. */
      for (const other of keys) if (!sweeper.pinned.includes(other)) sweeper.pin(other);
      if (keys.includes(key)) sweeper.unpin(key); else sweeper.pin(key);
    }
    const disagreement = (i, chosen) => Math.max(-1, ...chosen.map((model) => model.distance[i] ?? -1));

    /* The table of models: one row per model, with its disagreement for each set of questions. */
    const part = (model, set) => {
      const own = model.distance.filter((value, i) => questions.set[i] === set && value !== null);
      return { mean: own.length ? own.reduce((a, b) => a + b, 0) / own.length : null, changed: own.filter(Boolean).length, of: own.length };
    };
    const parts = new Map(models.map((model) => [model, sets.map((_, set) => part(model, set))]));
    function drawModels() {
      const details = find(".read-models");
      details.hidden = Boolean(state.blind);
      const head = make("tr", {}, make("th", { scope: "col" }, "model"), ...sets.map((set, i) =>
        make("th", { scope: "col", class: "n", "aria-sort": state.by === i ? "descending" : false },
          button(set.label, () => { state.by = state.by === i ? null : i; save(); redraw(); }, { "data-key": set.name, title: "Sort by disagreement" }))));
      const chosen = shown();
      const order = models.filter((model) => !sweeper.selected.length || sweeper.selected.includes(keyOf(model)) || chosen.includes(model));
      if (state.by !== null) order.sort((a, b) => (parts.get(b)[state.by].mean ?? -1) - (parts.get(a)[state.by].mean ?? -1));
      const rows = order.map((model) => make("tr", {},
        make("th", { scope: "row" }, make("span", { class: "choices" },
          button(model.name, () => toggle(model), { "aria-pressed": String(chosen.includes(model)), "data-key": keyOf(model) }),
          model.role && make("span", { class: "tag" }, model.role))),
        ...parts.get(model).map(({ mean, changed, of }) => make("td", { class: "n" },
          mean === null ? "–" : `${Math.round(mean)}%`, of ? make("div", { class: "fine" }, `${changed} of ${of}`) : null))));
      details.querySelector("thead").replaceChildren(head);
      details.querySelector("tbody").replaceChildren(...rows);
    }
    /* Drawing replaces buttons. The focus moves to the new button with the same key. */
    function redraw() {
      const { key } = document.activeElement?.dataset || {};
      drawModels();
      draw();
      if (key && !box.contains(document.activeElement)) [...box.querySelectorAll("button[data-key]")].find((node) => node.dataset.key === key)?.focus();
    }

    /* The questions that the filters keep, in order. */
    function selected(chosen) {
      const kept = questions.set.map((_, i) => i).filter((i) =>
        (state.group === "all" || sets[questions.set[i]].group === state.group) && (!state.changed || disagreement(i, chosen) > 0));
      if (state.sort === "disagreement") kept.sort((a, b) => disagreement(b, chosen) - disagreement(a, chosen) || a - b);
      return kept;
    }
    const voteKey = (i, chosen) => JSON.stringify([sets[questions.set[i]].name, questions.number[i], ...chosen.map(keyOf).sort()]);

    function draw() {
      const chosen = columns(), blind = Boolean(state.blind);
      const labels = chosen.map((model, k) => blind ? LABELS[k] : model.name);
      const references = [["true answer", questions.truth], ["target", !blind && target], ["never saw", !blind && neverSaw]].filter(([, texts]) => texts);
      const compared = target || questions.truth;
      const headings = ["question", ...references.map(([text]) => text)].map((text) => make("th", { scope: "col", role: "columnheader" }, text));
      headings.push(...chosen.map((model, k) => {
        const cell = make("th", { scope: "col", role: "columnheader" }, labels[k]);
        if (!blind) cell.append(" ", button("×", () => toggle(model), { class: "plain", "data-key": keyOf(model), "aria-label": `Remove ${model.name}` }));
        return cell;
      }));
      if (blind && chosen.length > 1) headings.push(make("th", { scope: "col", role: "columnheader" }, "better"));
      const found = selected(chosen);
      const rows = found.slice(0, state.rows).map((i) => {
        const cell = (label, text) => {
          const node = make("td", { role: "cell", "data-label": label });
          if (text === null || text === undefined) node.append(make("span", { class: "fine" }, "not stored"));
          else node.append(marked(text === 0 ? compared[i] : text, blind ? DIFFERS : 0));
          return node;
        };
        const set = sets[questions.set[i]], value = disagreement(i, chosen);
        const note = value < 0 || blind ? set.label : `${set.label}, ${value ? `disagree\u00adment ${value}%` : "unchanged"}`;
        const row = make("tr", { role: "row", "data-question": `${set.name}/${questions.number[i]}` },
          make("th", { scope: "row", role: "rowheader" }, questions.text[i], make("div", { class: "fine" }, note)),
          ...references.map(([label, texts]) => cell(label, texts[i])),
          ...chosen.map((model, k) => cell(labels[k], model.answers[i])));
        if (blind && chosen.length > 1) row.append(ballot(i, chosen));
        return row;
      });
      find(".answers thead").replaceChildren(make("tr", { role: "row" }, ...headings));
      find(".answers tbody").replaceChildren(...rows);
      find(".read-more").hidden = found.length <= state.rows;
      status(found.length, chosen);
      drawControls();
    }
    function ballot(i, chosen) {
      const key = voteKey(i, chosen);
      const choices = [...chosen.map((model, k) => [LABELS[k], keyOf(model)]), ["equal", null]];
      const isWinner = (winner) => votes[key] !== undefined && votes[key].winner === winner;
      const box = make("td", { role: "cell", class: "ballot", "data-label": "better" });
      box.append(make("span", { role: "group", "aria-label": `Which answer is better? ${questions.text[i]}` },
        ...choices.map(([label, winner]) => button(label, (event) => {
          if (isWinner(winner)) delete votes[key]; else votes[key] = { question: questions.text[i], set: sets[questions.set[i]].name, number: questions.number[i], models: chosen.map(keyOf), winner };
          storeVotes();
          for (const other of box.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === event.currentTarget && votes[key] !== undefined));
          status(selected(chosen).length, chosen);
          drawControls();
        }, { "aria-pressed": String(isWinner(winner)) }))));
      return box;
    }
    function tally() {
      const wins = new Map();
      for (const { winner } of Object.values(votes)) wins.set(winner, (wins.get(winner) || 0) + 1);
      return [...wins].sort((a, b) => b[1] - a[1]).map(([winner, n]) => `${winner === null ? "equal" : byKey.get(winner)?.name || winner}: ${n}`).join(", ");
    }
    function status(found, chosen) {
      const n = Object.keys(votes).length;
      let text = `${Math.min(found, state.rows)} of ${count(questions.text.length, "question")} shown.`;
      const left = sets.filter((set, i) => questions.set.filter((own) => own === i).length < set.total);
      if (left.length) text += ` The page has a part of the questions of the sets ${left.map((set) => `${set.label} (${set.total} in all)`).join(", ")}.`;
      if (n) text += state.blind ? ` ${count(n, "vote")} stored in this browser.` : ` Votes of blind comparisons: ${tally()}.`;
      find(".read-status").textContent = text;
      const missing = sweeper.pinned.filter((key) => !byKey.has(key) && !tasks.some((other) => other && other.models.some((model) => keyOf(model) === key)));
      find(".read-missing").textContent = missing.length ? `No answers are on this page for ${missing.map((key) => sweeper.name(sweeper.row(key))).join("; ")}: only the best --front-metrics epochs of the frontier and last epochs are measured.` : "";
    }
    function drawControls() {
      const groups = Object.keys(GROUPS).filter((group) => group === "all" || sets.some((set) => set.group === group));
      for (const node of find(".read-sets").children) node.setAttribute("aria-pressed", String(node.dataset.group === state.group));
      if (!find(".read-sets").children.length) find(".read-sets").append(...groups.map((group) => button(GROUPS[group], () => { state.group = group; state.rows = ROWS; save(); draw(); }, { "data-group": group, "aria-pressed": String(group === state.group) })));
      find(".read-changed").checked = state.changed;
      find(".read-sort").value = state.sort;
      find(".read-blind").checked = Boolean(state.blind);
      find(".read-blind").disabled = !state.blind && shown().length < 2;
      find(".read-export").hidden = !Object.keys(votes).length;
    }
    find(".read-changed").addEventListener("change", (event) => { state.changed = event.target.checked; save(); draw(); });
    find(".read-sort").addEventListener("change", (event) => { state.sort = event.target.value; save(); draw(); });
    find(".read-blind").addEventListener("change", (event) => {
      state.blind = event.target.checked ? shuffled(shown().map(keyOf)) : null;
      if (state.blind && state.sort === "disagreement") state.sort = "data";
      save();
      redraw();
    });
    find(".read-more").addEventListener("click", () => { state.rows += ROWS; save(); draw(); });
    find(".read-export").addEventListener("click", () => {
      const url = URL.createObjectURL(new Blob([JSON.stringify(Object.values(votes), null, 2)], { type: "application/json" }));
      make("a", { href: url, download: "votes.json" }).click();
      setTimeout(() => URL.revokeObjectURL(url), 1000);
    });
    document.addEventListener("sweeper:pin", redraw);
    document.addEventListener("sweeper:select", redraw);
    redraw();
  }
  for (const box of document.querySelectorAll(".read")) section(box, tasks[Number(box.dataset.index)]);
})();
