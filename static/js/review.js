// Cards of near-duplicates: without a selection there is nothing to merge, and the first checkbox gets the focus.
(function () {
  "use strict";

  const boxes = (card) => [...card.querySelectorAll('input[type="checkbox"][name="uid"]')];

  function tell(card, is) {
    const note = card.querySelector("[data-none]");
    if (note) note.textContent = is ? note.dataset.none : "";
  }

  // Runs before htmx handles the event.
  document.addEventListener("click", (event) => {
    const button = event.target.closest('.dup [name="do"]:is([value="merge"], [value="text"])');
    if (!button) return;
    const card = button.closest(".dup");
    const all = boxes(card);
    if (!all.length || all.some((box) => box.checked)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    tell(card, true);
    all[0].focus();
  }, true);

  document.addEventListener("change", (event) => {
    const card = event.target.closest(".dup");
    if (card && boxes(card).some((box) => box.checked)) tell(card, false);
  });
})();

// The review queue: each decision opens the next card; Escape cancels a merge.
(function () {
  "use strict";
  const review = document.querySelector(".review");
  if (!review) return;
  let place = -1;

  const cards = () => [...review.querySelectorAll(".review-card")];

  // The open memory stays open while the focus is elsewhere.
  function open(card) {
    if (card.matches(".is-current")) return;
    for (const other of cards()) other.classList.toggle("is-current", other === card);
  }

  document.addEventListener("focusin", (event) => {
    const card = event.target.closest(".is-split > .review-card");
    if (card && !event.target.matches(".row-check")) open(card);
  });

  // The title of another memory opens it here; the title of the open one leads to its page.
  document.addEventListener("click", (event) => {
    const item = event.target.closest(".review-item");
    if (!item || event.target.closest("input")) return;
    const card = item.closest(".review-card");
    const isOpen = item.nextElementSibling.checkVisibility() && !wasClosed;
    if (!isOpen && !(event.metaKey || event.ctrlKey || event.shiftKey)) event.preventDefault();
    if (!isOpen || !event.target.closest("a")) item.querySelector(".row-title a").focus();
    open(card);
  });

  // A click moves the focus first, which opens the memory.
  let wasClosed = false;
  document.addEventListener("pointerdown", (event) => {
    const item = event.target.closest(".review-item");
    wasClosed = Boolean(item) && !item.nextElementSibling.checkVisibility();
  }, true);

  // Queue the requests for the rest of the list, so that an older answer does not arrive last.
  const recount = () => htmx.trigger("#review-recount", "recount");

  // Do not leave a field with unsaved text.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
    const card = !event.target.closest("textarea") && event.target.closest(".review-card");
    const back = card && card.querySelector("[data-review-leave]");
    if (!back || document.querySelector("dialog[open], [popover]:popover-open")) return;
    event.preventDefault();
    back.click();
  });

  document.addEventListener("htmx:beforeSwap", (event) => {
    // Counts arrive in between and move nothing.
    if (event.detail.requestConfig.verb !== "post") return;
    const card = event.detail.target.matches(".review-card") && event.detail.target;
    place = card && event.detail.xhr.status < 300 ? cards().indexOf(card) : -1;
  });

  // After an undo there is one card too many at the end: remove it, it will be loaded again.
  function trim(back) {
    if (cards().length <= Number(review.dataset.most)) return;
    const last = cards().findLast((card) => card !== back && !card.querySelector(".row-check:checked, .dup"));
    if (last) last.remove();
  }

  function tell(part, isUndone) {
    const done = part.querySelector(".review-summary, .undo > span");
    const back = !done && isUndone && part.querySelector(".row-title, .card-head h2");
    const said = done ? done.textContent : back && "Undone: " + back.textContent;
    if (said) document.getElementById("review-status").textContent = said;
    if (back && part.matches(".review-card")) trim(part);
  }

  document.addEventListener("htmx:afterSettle", (event) => {
    const { elt, requestConfig, xhr } = event.detail;
    if (!requestConfig || requestConfig.verb !== "post" || !review.contains(elt)) return;
    recount();
    // lists.js handles bulk actions and their focus.
    if (elt.id === "listing") return;
    tell(elt, xhr.status < 300 && requestConfig.path.endsWith("/undo/"));
    if (place < 0) return;
    const next = cards()[place] || cards()[place - 1];
    place = -1;
    if (next) {
      (next.querySelector(".row-title a") || next.querySelector("a[href]")).focus();
      return;
    }
    const end = document.getElementById("review-end");
    end.hidden = false;
    end.focus();
  });
})();
