// Lists with boxes: how many are ticked, ranges, all of a page; messages that are closed. Works without, too.
(function () {
  "use strict";
  const BAR_OR_UNDO = "#bulk, [data-undo]";
  let last = null; // the box that was ticked or unticked before: where a range begins
  let place = 0; // of the first row that is acted on: there the work goes on
  let above = 0; // how far the page was scrolled: a list that comes anew must not move it

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

  // The bar goes; the focus must not go with it.
  function leave() {
    const first = ticked()[0] || boxes()[0];
    clear();
    if (first) first.focus();
  }

  // While an act is done its form says so, and none of its buttons can be pressed. They keep the focus, and the
  // one that is disabled for good stays so: that is why they are not simply disabled.
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

  // A button with an address of its own leads to a page: htmx would post to the form's. So does an action on
  // more memories than one request may change, which asks first.
  document.addEventListener("submit", (event) => {
    const asks = event.target.id === "bulk" && every()?.checked && every().hasAttribute("data-asks");
    if (!asks && !event.submitter?.hasAttribute("formaction")) return;
    event.stopPropagation();
    if (event.target.matches(BAR_OR_UNDO)) busy(event.target, true);
  }, true);

  // What htmx does not send leaves the page.
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

  // What was refused stays open where it is: the list is as it was.
  function isAct(detail) {
    const source = detail.requestConfig && detail.requestConfig.elt;
    return Boolean(source) && detail.xhr.status < 400 && (source.id === "bulk" || source.matches("[data-undo], [data-act]"));
  }

  document.addEventListener("htmx:beforeSwap", (event) => {
    if (isAct(event.detail)) above = window.scrollY;
  });

  // The list came anew: the focus goes on where the work was.
  document.addEventListener("htmx:afterSettle", (event) => {
    if (!isAct(event.detail)) return;
    last = null;
    count();
    window.scrollTo({ top: above, behavior: "instant" });
    const all = boxes();
    const next = all[Math.min(place, all.length - 1)];
    if (next) next.focus({ preventScroll: true });
    else document.getElementById("main").focus({ preventScroll: true });
  });

  // What a browser kept ticked over a reload counts; who comes back to a page that was left can act again.
  window.addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll(":is(" + BAR_OR_UNDO + ")[aria-busy]")) busy(form, false);
    count();
  });
  count();
})();

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

// A list that htmx narrows, orders or pages: the focus stays on what was pressed while it is there, else goes to the
// list. A new page begins at its top; going back leads to where it was left (hub.js).
(function () {
  "use strict";
  const CONTROLS = "a[href], button, summary";
  let pressed = null;

  // Addresses change with what is chosen, and counts do; what a control says of itself, and where, does not.
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
    if (focused !== document.body && !target.contains(focused)) return; // somebody has gone on meanwhile
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
    if (listing.contains(document.activeElement)) return; // htmx kept it, or what was refused has it
    const same = [...listing.querySelectorAll(CONTROLS)].find((one) => nameOf(one) === name);
    const fold = same && same.closest("details");
    if (fold) fold.open = true;
    if (same && same.checkVisibility({ visibilityProperty: true })) same.focus();
    else toTheList(listing, isPage);
  });
})();

// What is wrong with a filter leads to its field, also into the sheet that has the filters on a phone.
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
