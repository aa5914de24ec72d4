// Keyboard shortcuts. Single keys do nothing in text fields and can be disabled (WCAG 2.1.4).
(function () {
  "use strict";
  const help = document.getElementById("keys");
  if (!help) return;

  const ROWS = [
    "main :is(.rows, .timeline, .injections, .compact-rows, .month) > li",
    "main .table > tbody > tr",
    "main :is(.clusters, .contradictions) > :is(.dup-slot, .contradiction)",
  ].join();
  const TYPING = "textarea, select, [contenteditable], [role=combobox], [role=textbox], [role=listbox]";
  const NOT_TYPED = new Set(["checkbox", "radio", "button", "submit", "reset", "image", "file", "range", "color"]);
  const toggle = document.getElementById("keys-on");

  function areOn() {
    try {
      return localStorage.getItem("single-keys") !== "off";
    } catch {
      return toggle.checked;
    }
  }

  function isTyping(element) {
    // A field of a closing dialog can keep the focus for a moment.
    if (!isShown(element)) return false;
    const typing = element.tagName === "INPUT" ? !NOT_TYPED.has(element.type) : element.closest(TYPING);
    return Boolean(typing);
  }

  function isShown(element) {
    return element.checkVisibility({ visibilityProperty: true });
  }

  // The element of a row that gets the focus: its name, usually a link.
  function focusTarget(row) {
    const links = [row.querySelector(".row-title a, th[scope=row] a, .timeline-what a[href]"), ...row.querySelectorAll("a[href]")];
    return links.find((link) => link && isShown(link));
  }

  function current() {
    return document.activeElement && document.activeElement.closest(ROWS);
  }

  function headerBottom() {
    const top = document.querySelector(".top");
    return top ? Math.max(0, top.getBoundingClientRect().bottom) : 0;
  }

  // The row to go to from a focused element between rows, such as a message.
  function rowAfterStep(rows, place, step) {
    const after = rows.findIndex((row) => place.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_FOLLOWING);
    const next = after < 0 ? rows.length : after;
    return step > 0 ? next : Math.max(0, next - 1);
  }

  function move(step) {
    const place = current();
    const rows = [...document.querySelectorAll(ROWS)].filter(focusTarget);
    const here = rows.indexOf(place);
    // From outside the list, go to the first visible row.
    const firstVisible = Math.max(0, rows.findIndex((row) => row.getBoundingClientRect().top >= headerBottom()));
    const next = here >= 0 ? Math.max(0, here + step) : place ? rowAfterStep(rows, place, step) : firstVisible;
    const link = next < rows.length ? focusTarget(rows[next]) : document.querySelector("main .pages a[rel=next]");
    if (link) link.focus();
    return Boolean(link);
  }

  function search() {
    const box = document.querySelector(".top input[type=search], main #by_q");
    if (box && isShown(box)) {
      box.focus();
      box.select();
    } else {
      window.location.assign(help.dataset.search);
    }
    return true;
  }

  function edit() {
    const row = current();
    const link = document.querySelector("main [data-edit-this]");
    const href = row && row.dataset.edit ? row.dataset.edit : link && link.href;
    if (!href) return false;
    if (row && row.dataset.edit) {
      const to = new URL(href, window.location.href).pathname;
      focusTarget(row).dispatchEvent(new CustomEvent("row:leave", { bubbles: true, detail: to }));
    }
    window.location.assign(href);
    return true;
  }

  // A click with Shift selects the range from the previous checkbox (lists.js).
  function select(shiftKey) {
    const row = current();
    const box = row && row.querySelector(".row-check");
    if (box) box.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, shiftKey }));
    return Boolean(box);
  }

  const named = (key, within) => [...within.querySelectorAll(`.button[data-key="${key}"]`)].find(isShown);

  // The card that shortcuts act on: the focused one, otherwise the open one or the first, if it is visible.
  function card() {
    const row = current();
    const open = document.querySelector(".review .is-current");
    const first = open || document.querySelector(".review :is(.review-card, .review-slot:has(article))");
    const title = !row && first && focusTarget(first);
    const top = title ? title.getBoundingClientRect().top : -1;
    return row || (top >= headerBottom() && top < window.innerHeight ? first : null);
  }

  // The button or link of this key: in the bar of bulk actions, otherwise in the card.
  function press(key) {
    const bar = document.querySelector(".bulk");
    const on = bar && isShown(bar) ? bar : card();
    const found = on && named(key, on);
    if (found) found.click();
    return Boolean(found);
  }

  // Undo the latest action first; a message that has just appeared has no time yet.
  function undo() {
    const at = (button) => Number(button.dataset.at) || Number.MAX_SAFE_INTEGER;
    const all = [...document.querySelectorAll("main .button[data-key=u]")].filter(isShown);
    const last = all.sort((one, other) => at(one) - at(other)).pop();
    if (last) last.click();
    return Boolean(last);
  }

  function stamp() {
    for (const button of document.querySelectorAll("main .button[data-key=u]:not([data-at])")) {
      button.dataset.at = String(Date.now());
    }
  }
  document.addEventListener("htmx:afterSettle", stamp);
  stamp();

  // Move the focus to the bar of bulk actions, and back.
  let left = null;
  function bar() {
    const place = document.querySelector(".bulk");
    if (!place || !isShown(place)) return false;
    if (place.contains(document.activeElement)) {
      const back = left && left.isConnected && isShown(left) ? left : document.querySelector(".row-check:checked");
      if (back) back.focus();
      return Boolean(back);
    }
    left = current() && document.activeElement;
    const first = [...place.querySelectorAll(".buttons button, summary")].find(isShown);
    if (first) first.focus({ preventScroll: true }); // it is always visible
    return Boolean(first);
  }

  function show() {
    toggle.checked = areOn();
    help.showModal();
    return true;
  }

  const KEYS = {
    "/": search,
    j: () => move(1),
    k: () => move(-1),
    e: edit,
    x: () => select(false),
    X: () => select(true),
    b: bar,
    u: undo,
    "?": show,
  };
  for (const key of "admt") KEYS[key] = () => press(key);

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.repeat && !"jk".includes(event.key)) return;
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]") || !areOn()) return;
    if (KEYS[event.key]()) event.preventDefault();
  });

  toggle.addEventListener("change", () => {
    try {
      localStorage.setItem("single-keys", toggle.checked ? "on" : "off");
    } catch {
      // The choice lasts for this page only.
    }
  });

  // A button or a click outside closes a dialog. The browser handles Escape.
  document.addEventListener("click", (event) => {
    const dialog = event.target.closest("dialog.hands");
    if (dialog && (event.target === dialog || event.target.closest("[data-closes]"))) dialog.close();
  });

  for (const button of document.querySelectorAll("[data-print]")) {
    button.hidden = false;
    button.addEventListener("click", () => window.print());
  }

  for (const button of document.querySelectorAll("[data-opens=keys]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      button.closest("[popover]")?.hidePopover(); // returns the focus to the button of the menu
      show();
    });
  }
  if (/Mac|iPhone|iPad/.test(navigator.platform)) {
    for (const key of document.querySelectorAll("[data-command]")) key.textContent = "⌘";
  }
})();

// The command palette: a combobox with a listbox that htmx fills. The focus stays in the field.
(function () {
  "use strict";
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const box = document.getElementById("palette-typed");
  const list = document.getElementById("palette-list");
  const status = document.getElementById("palette-status");
  const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
  let isWaiting = false; // for the results of the current text
  let isGoing = false; // Enter was pressed before these results arrived

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
    // The results are outdated: nothing can be chosen until the new ones arrive.
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

  // A command clicks an element of the page, and is offered only if that exists.
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
