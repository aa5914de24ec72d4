// Fields that are changed where they stand: a click on the value opens them, Escape leaves.
(function () {
  "use strict";

  document.addEventListener("click", (event) => {
    const value = event.target.closest("[data-inline]");
    const link = value && value.querySelector("[data-inline-edit]");
    // A link within has its own meaning, and a text that was marked is to be copied.
    if (!link || event.target.closest("a") || String(window.getSelection())) return;
    link.click();
  });

  // The form under a row was for htmx alone: leaving it asks nobody.
  document.addEventListener("click", (event) => {
    const leave = event.target.closest("[data-row-leave]");
    const place = leave && leave.closest(".row-field");
    if (!place) return;
    event.preventDefault();
    place.replaceChildren();
    place.closest(".row, .timeline > li").querySelector(".inline-edit").focus();
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    const form = event.target.closest("[data-inline-form]");
    if (!form) return;
    event.preventDefault();
    form.querySelector("[data-inline-leave]").click();
  });
})();
