// Lists with checkboxes: number of selected rows, ranges, all rows of a page; closing of messages. Optional.
(function () {
  "use strict";
  const BAR_OR_UNDO = "#bulk, [data-undo]";
  let last = null; // the checkbox that was changed last: the start of a range
  let place = 0; // position of the first selected row, where the focus goes afterwards
  let above = 0; // scroll position, which a reloaded list must not change

  const boxes = () => [...document.querySelectorAll(".row-check")];
  const ticked = () => boxes().filter((box) => box.checked);
  const every = () => document.querySelector(".bulk [name=every]");

  function count() {
    const status = document.querySelector("[data-bulk-count]");
    const number = ticked().length;
    const what = every()?.checked ? "All that match" : number ? number + " selected" : "";
    if (status) status.textContent = what && status.closest("[aria-busy]") ? what + ": working…" : what;
    for (const all of document.querySelectorAll("[data-check-all]")) {
      const rows = [...document.querySelectorAll(all.dataset.checkAll)];
      const done = rows.filter((box) => box.checked).length;
      all.checked = done > 0 && done === rows.length;
      all.indeterminate = done > 0 && done < rows.length;
    }
  }

  function clear() {
    for (const box of boxes()) box.checked = false;
    if (every()) every().checked = false;
    count();
  }

  // The bar disappears; keep the focus on the page.
  function leave() {
    const first = ticked()[0] || boxes()[0];
    clear();
    if (first) first.focus();
  }

  // During an action, its form is busy and ignores its buttons. They are not disabled, so that they keep the focus, and
  // a button that was disabled before stays so.
  function busy(form, is) {
    if (is) form.setAttribute("aria-busy", "true");
    else form.removeAttribute("aria-busy");
    for (const button of form.querySelectorAll("button:enabled")) {
      if (is) button.setAttribute("aria-disabled", "true");
      else button.removeAttribute("aria-disabled");
    }
    const note = form.querySelector("[data-busy-note]");
    if (note) note.textContent = is ? note.dataset.busyNote : "";
    count();
  }

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[aria-busy] [aria-disabled]")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  document.addEventListener("click", (event) => {
    const box = event.target.closest(".row-check");
    if (box) {
      const all = boxes();
      const from = all.indexOf(last);
      if (event.shiftKey && from >= 0) {
        const [low, high] = [from, all.indexOf(box)].sort((one, other) => one - other);
        for (const one of all.slice(low, high + 1)) one.checked = box.checked;
      }
      last = box;
    }
    if (event.target.closest("[data-bulk-clear]")) leave();
    const closes = event.target.closest("[data-dismiss]");
    if (closes) closes.closest(".notice").remove();
  });

  document.addEventListener("change", (event) => {
    const all = event.target.closest("[data-check-all]");
    if (all) for (const box of document.querySelectorAll(all.dataset.checkAll)) box.checked = all.checked;
    if (event.target.closest(".row-check, [data-check-all], .bulk [name=every]")) count();
  });

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const field = event.target.closest(".bulk .control");
    if (event.key === "Enter" && field) {
      event.preventDefault();
      field.parentElement.querySelector("button").click();
    } else if (event.key === "Escape" && !document.querySelector("dialog[open], [popover]:popover-open")) {
      if (document.querySelector(".bulk[aria-busy]") || !(ticked().length || every()?.checked)) return;
      if (event.target.closest(".bulk")) leave();
      else clear();
    }
  });

  // A button with its own URL opens a page, but htmx would send it to the URL of the form. An action on more memories
  // than one request may change also opens a page, which asks for confirmation.
  document.addEventListener("submit", (event) => {
    const asks = event.target.id === "bulk" && every()?.checked && every().hasAttribute("data-asks");
    if (!asks && !event.submitter?.hasAttribute("formaction")) return;
    event.stopPropagation();
    event.target.dispatchEvent(new CustomEvent("form:leave", { bubbles: true, detail: event })); // hub.js guards it
    if (!event.defaultPrevented && event.target.matches(BAR_OR_UNDO)) busy(event.target, true);
  }, true);

  // Requests that htmx does not send leave the page.
  document.addEventListener("submit", (event) => {
    if (!event.defaultPrevented && event.target.matches(BAR_OR_UNDO)) busy(event.target, true);
  });

  document.addEventListener("htmx:beforeRequest", (event) => {
    const row = event.detail.elt.matches("[data-act]") && event.detail.elt.closest(".row, .timeline > li");
    if (row) place = Math.max(0, boxes().indexOf(row.querySelector(".row-check")));
    if (event.detail.elt.matches(BAR_OR_UNDO)) busy(event.detail.elt, true);
    if (event.detail.elt.id === "bulk") place = Math.max(0, boxes().findIndex((box) => box.checked));
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.elt.matches(BAR_OR_UNDO)) busy(event.detail.elt, false);
  });

  // A refused form stays open, and the list is unchanged.
  function isAct(detail) {
    const source = detail.requestConfig && detail.requestConfig.elt;
    return Boolean(source) && detail.xhr.status < 400 && (source.id === "bulk" || source.matches("[data-undo], [data-act]"));
  }

  document.addEventListener("htmx:beforeSwap", (event) => {
    if (isAct(event.detail)) above = window.scrollY;
  });

  // The list was reloaded: focus the row at the remembered position.
  document.addEventListener("htmx:afterSettle", (event) => {
    if (!isAct(event.detail)) return;
    last = null;
    count();
    window.scrollTo({ top: above, behavior: "instant" });
    const all = boxes();
    const next = all[Math.min(place, all.length - 1)];
    const target = next || document.getElementById("main");
    target.focus({ preventScroll: true });
    // Tab can have scrolled past the row on the way to the bar.
    if (next && next.getBoundingClientRect().bottom < 0) next.scrollIntoView({ block: "nearest", behavior: "instant" });
  });

  // Count checkboxes that the browser kept selected over a reload, and enable the form of a page that is shown again.
  window.addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll(":is(" + BAR_OR_UNDO + ")[aria-busy]")) busy(form, false);
    count();
  });
  count();
})();

// Inline editing: a click on the value opens the field, Escape closes it.
(function () {
  "use strict";

  document.addEventListener("click", (event) => {
    const value = event.target.closest("[data-inline]");
    const link = value && value.querySelector("[data-inline-edit]");
    // Ignore clicks on links, and selections of text.
    if (!link || event.target.closest("a") || String(window.getSelection())) return;
    link.click();
  });

  // The form below a row is for htmx only: closing it needs no confirmation.
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

// Lists that htmx filters, sorts or pages: the focus stays on the used control while it exists, otherwise it goes to
// the list. A new page starts at its top; hub.js restores the position on the way back.
(function () {
  "use strict";
  const CONTROLS = "a[href], button, summary";
  let pressed = null;

  // URLs and counts change with the filters; the label of a control and its place do not.
  function nameOf(control) {
    const facet = control.closest(".facet");
    const said = facet && control.matches("a") ? control.firstElementChild : control;
    const place = control.closest("nav, form, .chips");
    const within = facet ? facet.querySelector("h2").textContent : place ? place.className : "";
    return within + "\n" + said.textContent;
  }

  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, requestConfig, shouldSwap } = event.detail;
    pressed = null;
    if (target.id !== "listing" || requestConfig.verb !== "get" || !shouldSwap) return;
    const focused = document.activeElement;
    if (focused !== document.body && !target.contains(focused)) return; // the focus has moved meanwhile
    const link = requestConfig.elt.matches("a") && requestConfig.elt;
    const isPage = Boolean(link && link.closest(".pages"));
    pressed = { name: isPage ? "" : nameOf(link || focused), isPage };
    if (link) link.dispatchEvent(new CustomEvent("row:leave", { bubbles: true, detail: link.pathname }));
  });

  function toTheList(listing, isPage) {
    const list = listing.querySelector(".rows") || listing;
    list.tabIndex = -1;
    list.focus({ preventScroll: true });
    if (!isPage && list.getBoundingClientRect().top >= 0) return;
    (listing.querySelector(".main") || list).scrollIntoView({ block: "start", behavior: "instant" });
  }

  document.addEventListener("htmx:afterSettle", () => {
    const listing = pressed && document.getElementById("listing");
    if (!listing) return;
    const { name, isPage } = pressed;
    pressed = null;
    if (listing.contains(document.activeElement)) return; // htmx kept the focus, or a refused form has it
    const same = [...listing.querySelectorAll(CONTROLS)].find((one) => nameOf(one) === name);
    const fold = same && same.closest("details");
    if (fold) fold.open = true;
    if (same && same.checkVisibility({ visibilityProperty: true })) same.focus();
    else toTheList(listing, isPage);
  });
})();

// An error of a filter leads to its field, also in the sheet of filters on phones.
document.addEventListener("click", (event) => {
  const link = event.target.closest(".form-errors a[href^='#']");
  const field = link && document.querySelector(link.getAttribute("href"));
  const sheet = field && field.closest("[popover]");
  if (!sheet) return;
  field.closest("details").open = true;
  if (field.checkVisibility()) return;
  event.preventDefault();
  sheet.showPopover();
  field.focus();
});

// The menu of saved searches: filled when it opens; closed by Escape, a click outside, or Tab.
(function () {
  "use strict";

  const OPEN = "details:is(.saved, .more)[open]";

  // "toggle" does not bubble, but it can be captured.
  document.addEventListener("toggle", (event) => {
    const menu = event.target;
    if (!menu.matches("details.saved") || !menu.open) return;
    // Keep what was typed, unless the filters of the list have changed.
    const form = menu.querySelector(".saved-form");
    if (form && menu.dataset.at === window.location.href) return;
    if (form) form.remove();
    menu.dataset.at = window.location.href;
    menu.dispatchEvent(new CustomEvent("saved-open"));
  }, true);

  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && !event.isComposing && event.target.closest(OPEN);
    if (!menu) return;
    event.preventDefault();
    menu.open = false;
    menu.querySelector("summary").focus();
  });

  // An open menu could cover the focused element (WCAG 2.4.11). Without a target, the window lost the focus.
  document.addEventListener("focusout", (event) => {
    const menu = event.target.closest(OPEN);
    if (menu && event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });

  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(OPEN)) {
      // The clicked element may be gone: htmx has replaced it.
      if (event.target.isConnected && !menu.contains(event.target)) menu.open = false;
    }
  });
})();
