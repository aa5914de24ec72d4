// Runs before the first paint, so that a remembered theme does not flash. It is small because it blocks rendering.
(function () {
  "use strict";
  const root = document.documentElement;
  // The page contains the setting of the account. The choice of a button lasts until that setting changes.
  const chosen = root.dataset.theme || "";
  root.dataset.chosen = chosen;
  let kept = null;
  try {
    if ((localStorage.getItem("theme-profile") || "") === chosen) kept = localStorage.getItem("theme");
  } catch {
    // Storage is disabled: the setting of the system applies.
  }
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  root.classList.add("js");
  // The time zone of this browser, for people who chose none. The sign-in page sends it before the first page with a time.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !document.cookie.split("; ").includes("zone=" + zone)) {
    document.cookie = "zone=" + zone + "; path=/; max-age=31536000; samesite=lax" + (location.protocol === "https:" ? "; secure" : "");
  }
})();
