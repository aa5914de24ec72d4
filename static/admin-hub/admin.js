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
})();
