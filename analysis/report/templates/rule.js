"use strict";
/* The choice of a model for any thresholds: the steps of analysis/frontier/choice.py on the description that
   analysis/frontier/rule.py compiles. A threshold of null is the rule's own; a number is a bound for all models. */
const decideByRule = (() => {
  const RUNNERS_UP = 2;
  const bit = (bytes, i) => (bytes[i >> 3] >> (i & 7)) & 1;
  const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const unpacked = new WeakMap();
  function bits(holder, name) {
    if (!unpacked.has(holder)) unpacked.set(holder, {});
    const cache = unpacked.get(holder);
    cache[name] ??= bytesOf(holder[name]);
    return cache[name];
  }
  const infinite = (value) => value ?? Infinity;
  /* Compare two sort keys. */
  function order(a, b) {
    for (let k = 0; k < a.length; k++) if (a[k] !== b[k]) return a[k] < b[k] ? -1 : 1;
    return 0;
  }
  const least = (positions, key) => positions.reduce((best, i) => order(key(i), key(best)) < 0 ? i : best);

  /* Compare the values of one model, whose target is given, with the requirements. */
  function judge(rule, thresholds, value, target) {
    const { scores, bounds } = rule.targets[target];
    return rule.requirements.map((item, j) => {
      const untested = value(j) === null && !item.preferred && (item.role === "forget" || item.role === "keep");
      const bound = thresholds[j] ?? bounds[j];
      const above = item.sign[0] === ">", strict = item.sign.length === 1;
      const [low, high] = item.range;
      const forget = item.role === "forget";
      const misses = (x) => (above ? bound - x : x - bound) > 0 || (strict && x === bound);
      const isMetByTarget = bound !== null && scores[j] !== null && !misses(scores[j]);
      const decides = item.decisive && !(forget && isMetByTarget);
      if (bound === null || value(j) === null) return { met: null, miss: 0, decides, bound, untested };
      if (!misses(value(j))) return { met: true, miss: 0, decides, bound };
      const worst = forget ? scores[j] : above ? low : high;
      const scale = Math.abs(worst === null ? bound : bound - worst) || (low !== null && high !== null ? high - low : 1);
      const size = Math.max(above ? bound - value(j) : value(j) - bound, 0);
      return { met: false, miss: Math.max(size / (size + scale), Number.MIN_VALUE), decides, bound };
    });
  }
  const missesRole = (rule, judged, role) =>
    judged.some((item, j) => item.met === false && !rule.requirements[j].preferred && (!role || rule.requirements[j].role === role));
  const shows = (rule, judged, role) =>
    judged.some((item, j) => item.met === true && item.decides && rule.requirements[j].role === role && !rule.requirements[j].preferred);
  function isGood(rule, judged) {
    if (rule.faults || missesRole(rule, judged)) return false;
    if (judged.some((item, j) => item.untested || (rule.requirements[j].stated && item.met === null))) return false;
    if (rule.criterion === "usable" || rule.criterion === "paper") return shows(rule, judged, "forget") && shows(rule, judged, "keep");
    return rule.requirements.some((item) => item.stated);
  }

  /* The best of the models: [position, why, ties]. */
  function best(rule, judged, positions) {
    const n = rule.target.length;
    const counts = (i) => [
      judged[i].filter((item, j) => rule.requirements[j].preferred && item.met === false).length,
      judged[i].filter((item, j) => !rule.requirements[j].preferred && item.met === null).length,
    ];
    const fewest = counts(least(positions, counts));
    let left = positions.filter((i) => order(counts(i), fewest) === 0);
    const beats = bits(rule, "beats");
    let unbeaten = left.filter((b) => !left.some((a) => bit(beats, a * n + b)));
    if (!unbeaten.length) unbeaten = [least(left, (i) => [rule.sums[i]])];
    left = unbeaten;
    const distance = (i) => rule.distance[i].map(infinite);
    if (left.length === 1) return [left[0], "only one left", []];
    if (!left.every((i) => shows(rule, judged[i], "forget"))) return [least(left, distance), "nearest to the ideal corner", []];
    for (const aspect of fewest[0] ? ["keep", "preferred", "forget"] : ["keep", "forget"]) {
      const score = rule[aspect].find(({ costs }) => left.every((i) => costs[i] !== null));
      if (!score) continue;
      const near = bits(score, "near"), first = least(left, (i) => [score.costs[i]]);
      left = left.filter((i) => bit(near, first * n + i));
    }
    if (left.length === 1) return [left[0], "keeps most", []];
    const chosen = least(left, (i) => [...rule.change[i].map(infinite), ...distance(i)]);
    return [chosen, "changes the target least", left.filter((i) => i !== chosen)];
  }

  function choose(rule, judged, positions) {
    const known = positions.filter((i) => judged[i].some((item, j) => item.met !== null && !rule.requirements[j].preferred && rule.requirements[j].decisive));
    const good = positions.filter((i) => isGood(rule, judged[i]));
    const open = known.filter((i) => !missesRole(rule, judged[i]));
    const scored = positions.filter((i) => rule.distance[i][0] !== null);
    if (!good.length && !open.length && known.length && !rule.faults) {
      const missed = (i) => judged[i].reduce((sum, item, j) => sum + (rule.requirements[j].preferred ? 0 : item.miss), 0);
      const untested = (i) => judged[i].filter((item) => item.untested).length;
      const index = least(known, (i) => [untested(i), missed(i), ...rule.distance[i].map(infinite)]);
      return { outcome: "missed", index, decision: "closest to the bounds", ties: [], eligible: known.length };
    }
    const eligible = [good, open, scored].find((part) => part.length);
    if (!eligible) return { outcome: "none", index: null, decision: null, ties: [], eligible: 0 };
    const [index, decision, ties] = best(rule, judged, eligible);
    return { outcome: good.length ? "good" : "not_known", index, decision, ties, eligible: eligible.length };
  }

  /* Whether a model has fresh runs, and all of them meet the criterion. */
  function holds(rule, thresholds, index) {
    const runs = rule.fresh.find((item) => item.model === index);
    return Boolean(runs) && runs.finished.every((finished, k) =>
      finished && isGood(rule, judge(rule, thresholds, (j) => runs.values[j][k], runs.target[k])));
  }

  return (rule, thresholds = []) => {
    const every = rule.target.map((_, i) => i);
    const judged = every.map((i) => judge(rule, thresholds, (j) => rule.requirements[j].values[i], rule.target[i]));
    const choice = choose(rule, judged, every);
    if (choice.index !== null && rule.fresh.length) {
      const candidates = [];
      let positions = every, next = choice;
      while (next.outcome === "good") {
        candidates.push(next.index);
        const last = rule.configuration[next.index];
        positions = positions.filter((i) => rule.configuration[i] !== last);
        if (candidates.length > RUNNERS_UP || !positions.length) break;
        next = choose(rule, judged, positions);
      }
      const held = candidates.find((i) => holds(rule, thresholds, i));
      if (held !== undefined && held !== candidates[0]) {
        Object.assign(choice, { index: held, decision: "meets the criterion in all fresh runs", ties: [] });
      }
    }
    return { ...choice, judged, good: judged.map((item) => isGood(rule, item)) };
  };
})();
