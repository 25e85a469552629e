"use strict";
/* The candidates of the page, the selection that all parts of the page share, and functions that several parts use.
   See analysis/report/candidates.py. */
window.sweeper = (() => {
  const data = JSON.parse(document.getElementById("sweeper-data").textContent);
  const MAX_PINNED = 3;
  const KEY = "sweeper";
  let memory = {};
  try { memory = JSON.parse(sessionStorage.getItem(KEY)) || {}; } catch { /* storage is off for this page */ }
  const keep = (name, value) => {
    memory[name] = value;
    try { sessionStorage.setItem(KEY, JSON.stringify(memory)); } catch { /* storage is off, or full */ }
  };
  const kept = (name) => memory[name];

  const { trial: trialOf, epoch } = data.rows;
  const key = (row) => `${data.trials.id[trialOf[row]]}@${epoch[row] ?? ""}`;
  const rowOf = new Map(trialOf.map((_, row) => [key(row), row]));
  const row = (key) => rowOf.get(key);
  const known = (keys) => [...new Set(keys || [])].filter((item) => rowOf.has(item));
  const names = (key) => key === null ? { trial: null, epoch: null }
    : { trial: data.trials.id[trialOf[row(key)]], epoch: epoch[row(key)] };
  const name = (row) => `trial ${data.trials.id[trialOf[row]]}${epoch[row] === null ? "" : `, epoch ${epoch[row]}`}`;
  const columnOf = Object.fromEntries(data.columns.map((column) => [column.name, column]));

  /* An element with its attributes (onclick: a function) and children. Texts are inserted as text, never as HTML. */
  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "onclick") node.addEventListener("click", value);
      else if (value !== false && value !== null) node.setAttribute(key, value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
  }
  function short(x) {
    if (typeof x !== "number") return String(x ?? "");
    const size = Math.abs(x);
    return x === 0 || (size >= 1e-3 && size < 1e5) ? String(Number(x.toPrecision(3))) : x.toExponential(2).replace(/\.?0+e/, "e");
  }

  const state = {
    data, key, row, keep, kept, name, columnOf, make, short, problem: data.problems[kept("problem")] ? kept("problem") : 0,
    selected: known(kept("selected")), pinned: known(kept("pinned")), current: known([kept("current")])[0] ?? null,
  };
  state.ofProblem = (row) => data.trials.problem[trialOf[row]] === state.problem;
  const emit = (kind, detail) => document.dispatchEvent(new CustomEvent(kind, { detail }));
  state.select = (keys, current = null) => {
    state.selected = known(keys);
    state.current = current !== null && rowOf.has(current) ? current : null;
    keep("selected", state.selected);
    keep("current", state.current);
    emit("sweeper:select", { ...names(state.current), keys: state.selected });
  };
  state.show = (problem) => {
    state.problem = problem;
    keep("problem", problem);
    emit("sweeper:problem", { problem });
  };
  state.unpin = (key) => {
    if (!state.pinned.includes(key)) return;
    state.pinned = state.pinned.filter((item) => item !== key);
    keep("pinned", state.pinned);
    emit("sweeper:pin", { ...names(key), pinned: false });
  };
  state.pin = (key) => {
    if (!rowOf.has(key) || state.pinned.includes(key)) return;
    if (state.pinned.length === MAX_PINNED) state.unpin(state.pinned[0]);
    state.pinned = [...state.pinned, key];
    keep("pinned", state.pinned);
    emit("sweeper:pin", { ...names(key), pinned: true });
  };
  return state;
})();
