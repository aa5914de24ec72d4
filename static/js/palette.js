// The command palette: a combobox with a listbox, filled by htmx. The focus stays in the box.
(function () {
  "use strict";
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const box = document.getElementById("palette-typed");
  const list = document.getElementById("palette-list");
  const status = document.getElementById("palette-status");
  const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
  let isWaiting = false; // for the list of what stands in the box now
  let isGoing = false; // Enter was pressed before that list had come

  function options() {
    return [...list.querySelectorAll("[role=option]")];
  }

  function chosen() {
    return list.querySelector("[aria-selected=true]");
  }

  function choose(option) {
    const before = chosen();
    if (before) before.setAttribute("aria-selected", "false");
    if (!option) {
      box.removeAttribute("aria-activedescendant");
      return;
    }
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    box.setAttribute("aria-activedescendant", option.id);
  }

  function step(by) {
    const all = options();
    const here = all.indexOf(chosen());
    if (all.length) choose(all[here < 0 ? 0 : (here + by + all.length) % all.length]);
  }

  function go() {
    const option = chosen();
    if (option) option.click();
    else if (box.value.trim()) {
      window.location.assign(dialog.dataset.search + "?" + new URLSearchParams({ q: box.value.trim() }));
    }
  }

  function open() {
    for (const other of document.querySelectorAll("dialog[open]")) other.close();
    for (const menu of document.querySelectorAll("[popover]:popover-open")) menu.hidePopover();
    box.value = "";
    list.replaceChildren();
    choose(null);
    dialog.showModal();
    isWaiting = true;
    isGoing = false;
    box.dispatchEvent(new CustomEvent("palette:open"));
  }

  document.addEventListener("keydown", (event) => {
    const command = isMac ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey;
    if (!command || event.altKey || event.shiftKey || event.key.toLowerCase() !== "k") return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else open();
  });

  box.addEventListener("input", () => {
    // What is listed fits no more: nothing is chosen until the new list is here.
    choose(null);
    isWaiting = true;
    isGoing = false;
  });

  box.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown") step(1);
    else if (event.key === "ArrowUp") step(-1);
    else if (event.key === "Enter") {
      isGoing = isWaiting;
      if (!isWaiting) go();
    } else return;
    event.preventDefault();
  });

  // A command clicks what stands on the page already; where there is nothing to click, it is not offered.
  function keepWhatCanBeDone() {
    for (const option of list.querySelectorAll("[data-does]")) {
      if (!document.querySelector(option.dataset.does)) option.remove();
    }
    for (const group of list.children) group.hidden = !group.querySelector("[role=option]");
  }

  list.addEventListener("click", (event) => {
    const option = event.target.closest("[data-does]");
    if (!option) return;
    event.preventDefault();
    const door = document.querySelector(option.dataset.does);
    dialog.close();
    if (door) door.click();
  });

  list.addEventListener("htmx:afterSwap", () => {
    keepWhatCanBeDone();
    const all = options();
    isWaiting = false;
    box.setAttribute("aria-expanded", String(all.length > 0));
    choose(all[0]);
    status.textContent = all.length === 1 ? "1 place" : all.length + " places";
    if (isGoing) go();
  });

  function fail() {
    isWaiting = false;
    list.replaceChildren();
    box.setAttribute("aria-expanded", "false");
    status.textContent = "The list could not be fetched. Enter searches for what you typed.";
  }
  box.addEventListener("htmx:sendError", fail);
  box.addEventListener("htmx:responseError", fail);

  for (const button of document.querySelectorAll("[data-opens=palette]")) {
    button.hidden = false;
    button.addEventListener("click", open);
  }
})();
