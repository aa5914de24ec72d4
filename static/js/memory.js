// Copies an id. The button is only visible with this script.
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
      // Without HTTPS there is no clipboard: select the text for Ctrl+C.
      select(source);
    }
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
})();

// Copies a memory as Markdown or JSON. Without a clipboard (no HTTPS), the links open the text.
(function () {
  "use strict";
  if (!navigator.clipboard) return;

  for (const button of document.querySelectorAll("[data-copy-link]")) {
    const words = button.querySelector("span");
    const before = words.textContent;
    const status = button.nextElementSibling;
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(new URL(button.dataset.copyLink, location.href).href);
        words.textContent = "Copied";
      } catch {
        words.textContent = "It could not be copied";
      }
      status.textContent = words.textContent;
      setTimeout(() => (words.textContent = before), 2000);
    });
  }

  const status = document.getElementById("copied");

  async function textOf(link) {
    if ("copySelf" in link.dataset) return link.href;
    const response = await fetch(link.href);
    if (!response.ok || response.redirected) throw new Error(response.statusText);
    return response.text();
  }

  async function copy(link) {
    try {
      await navigator.clipboard.writeText(await textOf(link));
    } catch {
      window.location.assign(link.href);
      return;
    }
    link.classList.add("is-done");
    status.textContent = "Copied as " + link.dataset.copyText;
    setTimeout(() => link.classList.remove("is-done"), 2000);
  }

  for (const link of document.querySelectorAll("[data-copy-text]")) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      status.textContent = "";
      copy(link);
    });
  }
})();
