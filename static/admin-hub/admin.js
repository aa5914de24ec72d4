// What Django's own pages lack for who cannot see them.
(function () {
  "use strict";
  // Of two lists to choose between, each has a picture that explains its box. Its name counts on a picture alone.
  addEventListener("load", () => {
    for (const one of document.querySelectorAll("span.help-tooltip[aria-label]")) one.setAttribute("role", "img");
  });
})();
