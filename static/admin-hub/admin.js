// What Django's own pages lack on phones and for screen readers.
(function () {
  "use strict";
  // The filters come after the rows. They start closed on phones, until the person opens or closes one.
  addEventListener("load", () => {
    if (matchMedia("(min-width: 768px)").matches || sessionStorage.getItem("django.admin.filtersState")) return;
    for (const one of document.querySelectorAll("#changelist-filter details")) one.open = false;
  });
  // Of two lists to choose between, each has a picture that explains its box. Its name counts on a picture alone.
  addEventListener("load", () => {
    for (const one of document.querySelectorAll("span.help-tooltip[aria-label]")) one.setAttribute("role", "img");
  });
  // On phones the cells of a row wrap: a number, and one of several dates, gets the name of its column. Missing values
  // take no room.
  addEventListener("load", () => {
    const names = [...document.querySelectorAll("#result_list thead th")].map((one) => one.innerText.trim());
    for (const cell of document.querySelectorAll("#result_list tbody :is(td, th)")) {
      const text = cell.textContent.trim();
      const moments = cell.querySelector(".hub-moment") ? cell.parentNode.querySelectorAll(".hub-moment").length : 0;
      if (moments > 1 || /^([\d.,]+|never)$/.test(text)) cell.dataset.label = names[cell.cellIndex];
      else if (text === "–") cell.classList.add("is-missing");
    }
  });
})();
