// Cards of near-duplicates: where nothing is ticked there is nothing to merge, and the focus goes to the first box.
(function () {
  "use strict";

  const boxes = (card) => [...card.querySelectorAll('input[type="checkbox"][name="uid"]')];

  function tell(card, is) {
    const note = card.querySelector("[data-none]");
    if (note) note.textContent = is ? note.dataset.none : "";
  }

  // Before htmx hears of it.
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
