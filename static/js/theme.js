// Runs before the first paint, so that a remembered theme does not flash. Small on purpose: it blocks.
(function () {
  "use strict";
  const root = document.documentElement;
  let kept = null;
  try {
    kept = localStorage.getItem("theme");
  } catch {
    // Storage is switched off: the system's choice stands.
  }
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  root.classList.add("js");
})();
