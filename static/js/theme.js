// Runs before the first paint, so that a remembered theme does not flash. Small on purpose: it blocks.
(function () {
  "use strict";
  const root = document.documentElement;
  // What the account says comes with the page. A button's choice stands until the account says something else.
  const chosen = root.dataset.theme || "";
  root.dataset.chosen = chosen;
  let kept = null;
  try {
    if ((localStorage.getItem("theme-profile") || "") === chosen) kept = localStorage.getItem("theme");
  } catch {
    // Storage is switched off: the system's choice stands.
  }
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  root.classList.add("js");
  // The zone of this browser, for people who chose none: the login page tells it before the first page with a time.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !document.cookie.split("; ").includes("zone=" + zone)) {
    document.cookie = "zone=" + zone + "; path=/; max-age=31536000; samesite=lax" + (location.protocol === "https:" ? "; secure" : "");
  }
})();
