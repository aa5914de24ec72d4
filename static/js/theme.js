// Runs before the first paint, so that a remembered theme does not flash. Small on purpose: it blocks.
(function () {
  "use strict";
  const root = document.documentElement;
  // What the account says comes with the page. A button's choice stands until the account says something else.
  const chosen = root.dataset.theme || "";
  root.dataset.chosen = chosen;
  let kept = null;
  try {
    if ((localStorage.getItem("theme-beside") || "") === chosen) kept = localStorage.getItem("theme");
  } catch {
    // Storage is switched off: the system's choice stands.
  }
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  root.classList.add("js");
})();
