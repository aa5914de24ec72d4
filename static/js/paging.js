// A list that htmx narrows, orders or pages: the focus stays on what was pressed while it is there, else goes to the
// list. A new page begins at its top; going back leads to where it was left (returning.js).
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
