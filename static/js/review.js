// The review queue: after each decision the next card is at hand; Escape leaves the merging of one.
(function () {
  "use strict";
  const review = document.querySelector(".review");
  if (!review) return;
  let place = -1;

  const cards = () => [...review.querySelectorAll(".review-card")];

  // The list is told anew what is left.
  function recount() {
    // Its source gives up the one before: an older answer must not come last.
    const where = { source: "#review-recount", target: "#review-head", swap: "outerHTML" };
    // One that was given up for a newer one is no error; what fails is told by hub.js.
    htmx.ajax("GET", review.dataset.counts, where).catch(() => undefined);
  }

  // Not out of a text of one's own: it would be gone.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
    const card = !event.target.closest("textarea") && event.target.closest(".review-card");
    const back = card && card.querySelector("[data-review-leave]");
    if (!back || document.querySelector("dialog[open], [popover]:popover-open")) return;
    event.preventDefault();
    back.click();
  });

  document.addEventListener("htmx:beforeSwap", (event) => {
    // Counts come in between, and move nothing.
    if (event.detail.requestConfig.verb !== "post") return;
    const card = event.detail.target.matches(".review-card") && event.detail.target;
    place = card && event.detail.xhr.status < 300 ? cards().indexOf(card) : -1;
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    const posted = event.detail.requestConfig && event.detail.requestConfig.verb === "post";
    if (!posted || !review.contains(event.detail.elt)) return;
    const told = event.detail.elt.querySelector(".review-told, .undo > span");
    const undone = event.detail.xhr.status < 300 && event.detail.elt.querySelector(".row-title");
    const said = told ? told.textContent : undone && "Taken back: " + undone.textContent;
    if (said) document.getElementById("review-said").textContent = said;
    recount();
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
