// Copies an id: the button shows only where this runs.
(function () {
  "use strict";

  function select(element) {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }

  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    const label = button.querySelector(".visually-hidden");
    try {
      await navigator.clipboard.writeText(source.textContent.trim());
      label.textContent = "Copied";
      button.classList.add("is-done");
    } catch {
      // Without HTTPS there is no clipboard; the text is marked for Ctrl+C.
      select(source);
    }
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
})();
