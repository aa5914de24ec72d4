// The menu of saved searches: filled when it opens, closed by Escape, by a click beside it, and by Tab out of it.
(function () {
  "use strict";

  // Toggle does not bubble, but it can be caught on its way down.
  document.addEventListener("toggle", (event) => {
    const menu = event.target;
    if (!menu.matches("details.saved") || !menu.open) return;
    // What was typed into it stays, unless the list has other filters now.
    const form = menu.querySelector(".saved-form");
    if (form && menu.dataset.at === window.location.href) return;
    if (form) form.remove();
    menu.dataset.at = window.location.href;
    menu.dispatchEvent(new CustomEvent("saved-open"));
  }, true);

  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && !event.isComposing && event.target.closest("details.saved[open]");
    if (!menu) return;
    event.preventDefault();
    menu.open = false;
    menu.querySelector("summary").focus();
  });

  // Open it would lie over what has the focus next (WCAG 2.4.11). Without somewhere next, the window was left.
  document.addEventListener("focusout", (event) => {
    const menu = event.target.closest("details.saved[open]");
    if (menu && event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });

  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.saved[open]")) {
      // What was clicked may be gone by now: htmx has put something else in its place.
      if (event.target.isConnected && !menu.contains(event.target)) menu.open = false;
    }
  });
})();
