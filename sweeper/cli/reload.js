(() => {
  /* Reload the page after it was rewritten. Keep the search, the filters, the open parts and the scroll position. */
  const KEY = "report-view";
  const byId = (id) => document.getElementById(id);
  const kept = JSON.parse(sessionStorage.getItem(KEY) || "null");
  if (kept) {
    for (const [id, open] of kept.parts) if (byId(id)) byId(id).open = open;
    if (byId("search")) {
      byId("search").value = kept.search;
      byId("status").value = kept.status;
      byId("front-only").checked = kept.front;
      byId("search").dispatchEvent(new Event("input"));
      for (const id of kept.open) {
        const row = byId(id);
        if (row && !row.hidden && !row.classList.contains("open")) row.click();
      }
    }
    if (kept.focus && byId(kept.focus)) byId(kept.focus).focus({ preventScroll: true });
    scrollTo(0, kept.y);
  }
  sessionStorage.removeItem(KEY);
  const reload = () => {
    sessionStorage.setItem(KEY, JSON.stringify({
      search: byId("search")?.value || "", status: byId("status")?.value || "", front: byId("front-only")?.checked || false,
      parts: [...document.querySelectorAll("details[id]")].map((part) => [part.id, part.open]),
      open: [...document.querySelectorAll("tr.line.open")].map((row) => row.id),
      focus: document.activeElement?.id || "", y: scrollY,
    }));
    location.reload();
  };
  let made = null;
  const look = async () => {
    try {
      const now = await (await fetch("/made")).text();
      if (made !== null && now !== made) { reload(); return; }
      made = now;
    } catch { /* the server has ended, or is busy */ }
    setTimeout(look, 1000);
  };
  look();
})();
