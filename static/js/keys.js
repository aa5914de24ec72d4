// The keyboard map. Single keys never act while someone types, and can be switched off (WCAG 2.1.4).
(function () {
  "use strict";
  const help = document.getElementById("keys");
  if (!help) return;

  const ROWS = [
    "main :is(.rows, .timeline, .injections, .briefs, .month) > li",
    "main .table > tbody > tr",
    "main :is(.clusters, .clashes) > article",
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
    // A field of a dialog that was just closed may have the focus for a moment more.
    if (!isShown(element)) return false;
    const typing = element.tagName === "INPUT" ? !NOT_TYPED.has(element.type) : element.closest(TYPING);
    return Boolean(typing);
  }

  function isShown(element) {
    return element.checkVisibility({ visibilityProperty: true });
  }

  // What of a row is a place for the focus: its name, as a rule a link.
  function handle(row) {
    const links = [row.querySelector(".row-title a, th[scope=row] a, .timeline-what a[href]"), ...row.querySelectorAll("a[href]")];
    return links.find((link) => link && isShown(link));
  }

  function current() {
    return document.activeElement && document.activeElement.closest(ROWS);
  }

  function move(step) {
    const rows = [...document.querySelectorAll(ROWS)].filter(handle);
    const here = rows.indexOf(current());
    // From elsewhere to the first that is in sight.
    const top = document.querySelector(".top");
    const edge = top ? top.getBoundingClientRect().bottom : 0;
    const inSight = Math.max(0, rows.findIndex((row) => row.getBoundingClientRect().top >= edge));
    const next = here < 0 ? inSight : Math.max(0, here + step);
    const link = next < rows.length ? handle(rows[next]) : document.querySelector("main .pages a[rel=next]");
    if (link) link.focus();
    return Boolean(link);
  }

  function search() {
    const box = document.querySelector("main input[type=search]");
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
      handle(row).dispatchEvent(new CustomEvent("row:leave", { bubbles: true, detail: to }));
    }
    window.location.assign(href);
    return true;
  }

  // A click with Shift ticks all from the one before (acts.js).
  function select(shiftKey) {
    const row = current();
    const box = row && row.querySelector(".row-check");
    if (box) box.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, shiftKey }));
    return Boolean(box);
  }

  // Buttons and links that name their key: of a queue, of the card with the focus, else of the first; of the bar
  // of what is ticked; of a message that undoes; to undo, that of what was done last.
  function press(key) {
    const all = [...document.querySelectorAll(`:is(.review, .bulk, #messages) [data-key="${key}"]`)].filter(isShown);
    const row = current();
    // What has only just come has no time yet.
    const at = (button) => Number(button.dataset.at) || Number.MAX_SAFE_INTEGER;
    const latest = (one, other) => at(one) - at(other);
    const found = key === "u" ? all.sort(latest).pop() : all.find((one) => row && row.contains(one)) || all[0];
    if (found) found.click();
    return Boolean(found);
  }

  function show() {
    toggle.checked = areOn();
    help.showModal();
    return true;
  }

  const KEYS = { "/": search, j: () => move(1), k: () => move(-1), e: edit, x: () => select(false), X: () => select(true), "?": show };
  for (const key of "admtu") KEYS[key] = () => press(key);

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
      // It lasts for this page only.
    }
  });

  // Dialogs close by a button, and by a click beside them. (Escape is the browser's own.)
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
      button.closest("[popover]")?.hidePopover(); // gives the focus back to what opened the menu
      show();
    });
  }
  if (/Mac|iPhone|iPad/.test(navigator.platform)) {
    for (const key of document.querySelectorAll("[data-command]")) key.textContent = "⌘";
  }
})();
