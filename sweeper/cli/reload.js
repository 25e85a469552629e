(() => {
  /* Reload the page after it was rewritten. Keep the search, the filters, the open parts and the scroll position. */
  const KEY = "report-view";
  const byId = (id) => document.getElementById(id);
  const kept = JSON.parse(sessionStorage.getItem(KEY) || "null");
  for (const id of kept ? kept.parts : []) if (byId(id)) byId(id).open = true;
  if (kept && byId("search")) {
    byId("search").value = kept.search;
    byId("status").value = kept.status;
    byId("front-only").checked = kept.front;
    byId("search").dispatchEvent(new Event("input"));
    for (const id of kept.open) {
      const row = byId(id);
      if (row && !row.hidden && !row.classList.contains("open")) row.click();
    }
    scrollTo(0, kept.y);
  }
  sessionStorage.removeItem(KEY);
  const reload = () => {
    if (byId("search")) {
      sessionStorage.setItem(KEY, JSON.stringify({
        search: byId("search").value, status: byId("status").value, front: byId("front-only").checked,
        parts: [...document.querySelectorAll("details[id][open]")].map((part) => part.id),
        open: [...document.querySelectorAll("tr.line.open")].map((row) => row.id), y: scrollY,
      }));
    }
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
