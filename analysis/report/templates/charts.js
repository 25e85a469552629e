/* The scale of an axis: the space at both ends keeps marks away from the frame. */
window.sweeper.scale = (type) => ({ type, nice: false, padding: 14, ...(type === "log" ? {} : { zero: false }) });
/* Draw a chart of Vega-Lite in the colours of the page: sweeper.embed(node, spec, number of marks, text alternative). */
window.sweeper.embed = (() => {
  const MANY = 1500;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  function config() {
    const ink = css("--ink"), muted = css("--muted"), grid = css("--grid");
    return {
      background: "transparent", font: "system-ui, sans-serif", view: { stroke: null },
      axis: { labelColor: muted, titleColor: ink, gridColor: grid, domainColor: muted, tickColor: muted, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelOverlap: true, labelSeparation: 6 },
      title: { color: ink, fontSize: 12, fontWeight: "normal", anchor: "start" },
      legend: { labelColor: ink, labelFontSize: 12 }, text: { color: ink, fontSize: 12 }, point: { color: ink }, rule: { color: muted },
      range: { category: [0, 1, 2, 3, 4, 5, 6].map((k) => css(`--hue-${k}`)) },
      line: { color: ink },
    };
  }
  /* Without an interpreter, Vega would need eval, which the content security policy forbids. */
  return (node, spec, count, description) => vegaEmbed(node, { ...spec, description }, {
    ast: true, actions: false, logLevel: 1, mode: "vega-lite", renderer: count > MANY ? "canvas" : "svg", config: config(), tooltip: { theme: dark.matches ? "dark" : "light" },
  });
})();
