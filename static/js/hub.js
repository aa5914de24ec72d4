// Enhancements of every page. All pages work without this file.
(function () {
  "use strict";
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function themeNow() {
    return root.dataset.theme || (dark.matches ? "dark" : "light");
  }

  function nameTheme(button) {
    const other = themeNow() === "dark" ? "light" : "dark";
    button.querySelector("span").textContent = "Use the " + other + " theme";
  }

  function turnTheme(button) {
    const other = themeNow() === "dark" ? "light" : "dark";
    root.dataset.theme = other;
    try {
      localStorage.setItem("theme", other);
      localStorage.setItem("theme-profile", root.dataset.chosen || "");
    } catch {
      // The choice lasts for this page only.
    }
    nameTheme(button);
  }

  const themeButton = document.getElementById("theme-button");
  if (themeButton) {
    themeButton.hidden = false;
    nameTheme(themeButton);
    themeButton.addEventListener("click", () => turnTheme(themeButton));
    dark.addEventListener("change", () => nameTheme(themeButton));
  }

  // Why the hub refused a request. Forms that htmx sends stay in the page with their text.
  const REFUSALS = {
    401: "You are signed out. Nothing was saved. Sign in in a new tab, then try again here.",
    403: "You don’t have permission to do this. Nothing was saved.",
    404: "This no longer exists, or you no longer have access. Nothing was saved.",
    503: "The hub is busy. Nothing was saved. Try again in a moment.",
  };
  const FORM_EXPIRED = "The form was open for too long, or you signed in again. Nothing was saved. Press the button again.";
  const TOKEN_HEADER = "X-CSRFToken"; // with a new token, if that of the form has expired (web/base/views.py)

  const newToken = (detail) => detail.xhr?.getResponseHeader(TOKEN_HEADER);
  const isExpired = (detail) => detail.xhr?.status === 401 || newToken(detail);

  // htmx logs a request that newer input replaced, and an expired session or form, as errors. Real failures are logged
  // with their cause as well.
  if (window.htmx) {
    htmx.logger = (element, name, detail) => {
      if (name === "htmx:sendAbort" || name === "htmx:afterRequest" || isExpired(detail)) delete detail.error;
    };
  }

  // Report failed requests of htmx to the user, on top of an open dialog or sheet, which would cover the message.
  const failure = document.getElementById("failure");
  function say(text) {
    if (!failure) return;
    const covers = document.querySelectorAll("dialog:modal, [popover]:popover-open");
    const place = [...covers].at(-1) || document.getElementById("main");
    if (text && failure.parentElement !== place) place.prepend(failure);
    failure.textContent = text;
    failure.hidden = !text;
  }
  function sayInView(text) {
    say(text);
    failure?.scrollIntoView({ block: "nearest" });
  }

  function hasText(form) {
    const fields = form?.querySelectorAll("textarea, input:not([type=checkbox], [type=radio], [type=hidden])") || [];
    return [...fields].some((one) => one.value !== one.defaultValue);
  }

  function renewTokens(token) {
    for (const field of document.querySelectorAll("[name=csrfmiddlewaretoken]")) field.value = token;
  }

  const FAILED = "That did not work. Reload the page and try again.";

  function explain({ elt, requestConfig, xhr }) {
    if (requestConfig.verb === "get") return FAILED;
    const token = newToken({ xhr });
    if (token) {
      renewTokens(token);
      return FORM_EXPIRED;
    }
    const why = REFUSALS[xhr.status] || FAILED;
    return hasText(elt.closest("form")) ? why + " Your text is still here: copy it before you leave the page." : why;
  }

  // Polls and searches do not move the page. A later success of another element does not hide the message.
  let failed = null;
  function report(text, { requestConfig }) {
    failed = requestConfig.elt;
    if (requestConfig.verb === "get") say(text);
    else sayInView(text);
  }
  document.addEventListener("htmx:sendError", (event) => {
    report("The hub does not answer. Check the connection and try again.", event.detail);
  });
  document.addEventListener("htmx:responseError", (event) => report(explain(event.detail), event.detail));
  // Signed out: htmx would replace the page and what is typed in it by the sign-in.
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    const leavesFor = event.detail.xhr.getResponseHeader("HX-Redirect") || "";
    if (!leavesFor.startsWith("/login/") || ![...document.querySelectorAll("main form[method=post]")].some(hasText)) return;
    event.preventDefault();
    failed = event.detail.requestConfig.elt;
    sayInView(REFUSALS[401]);
  });
  document.addEventListener("htmx:afterOnLoad", ({ detail: { successful, requestConfig } }) => {
    if (successful && (requestConfig.verb !== "get" || requestConfig.elt === failed || !failed?.isConnected)) say("");
  });

  // A second click while the browser waits for the next page would send a form again. Downloads leave the page as it is.
  const RESEND_AFTER = 5000;
  function guard(event) {
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post") return;
    if (!navigator.onLine) {
      // The browser's error page would replace the text.
      event.preventDefault();
      sayInView("You are offline. Nothing was sent" + (hasText(form) ? "; your text is still here." : "."));
      return;
    }
    say("");
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
    setTimeout(() => delete form.dataset.sent, RESEND_AFTER);
  }
  document.addEventListener("submit", guard);
  // A form that lists.js hides from htmx.
  document.addEventListener("form:leave", (event) => guard(event.detail));
  window.addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  });

  // If a swap removes the focused element, continue at the menu that it was in, or at the content, instead of at the top
  // of the page. Lists have rules of their own (lists.js), which come first.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, shouldSwap } = event.detail;
    const focused = document.activeElement;
    if (!shouldSwap || focused === document.body || !target.contains(focused)) return;
    setTimeout(() => {
      if (!focused.isConnected && document.activeElement === document.body) {
        const menu = target.closest("details[open]");
        (menu ? menu.querySelector("summary") : document.getElementById("main")).focus({ preventScroll: true });
      }
    });
  });
})();

// Restore the scroll position and the focus on the way back to a list. Its URL has the filters, order and page.
(function () {
  "use strict";
  const LISTS = "main .rows, main .table, main .timeline, main .injections, main .compact-rows, main .month, main .clusters, main .contradictions";
  const KEPT = 20; // remembered URLs of lists

  function read() {
    try {
      return JSON.parse(sessionStorage.getItem("lists") || "[]");
    } catch {
      return []; // Storage is disabled, or its content is invalid.
    }
  }

  // Includes links in SVG, whose href is an object.
  function leadingTo(href) {
    return [...document.querySelectorAll("main a[href]")].filter((one) => one.getAttribute("href") === href);
  }

  function here() {
    return location.pathname + location.search;
  }

  function write(entries) {
    try {
      sessionStorage.setItem("lists", JSON.stringify(entries.slice(-KEPT)));
    } catch {
      // Without storage, the browser restores what it can.
    }
  }

  // Remember the position when a link of a list is followed.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (!link.closest(LISTS) || link.origin !== location.origin || link.pathname === location.pathname) return;
    leave(link, link.pathname);
  });
  // Shortcuts lead to other pages of a row (keys.js), and the pagination to other pages of the list (lists.js).
  document.addEventListener("row:leave", (event) => leave(event.target, event.detail));

  function leave(link, to) {
    const href = link.getAttribute("href");
    const one = {
      at: here(),
      to,
      href,
      nth: leadingTo(href).indexOf(link),
      y: Math.round(scrollY),
      title: document.title.replace(/ · memoryhub$/, ""),
    };
    write([...read().filter((other) => other.at !== one.at), one]);
  }

  function settle() {
    const left = read().findLast((one) => one.at === here());
    if (!left) return;
    const links = leadingTo(left.href);
    const link = links[left.nth] || links[0];
    if (link && document.activeElement === document.body) link.focus({ preventScroll: true });
    if (Math.abs(scrollY - left.y) > 2) scrollTo({ top: left.y, behavior: "instant" });
    keepScroll();
  }

  // After a reload, the browser restores the scroll position of the previous page of the list.
  function keepScroll() {
    if (performance.getEntriesByType("navigation")[0]?.type !== "reload") return;
    history.scrollRestoration = "manual";
    window.addEventListener("pagehide", () => { history.scrollRestoration = "auto"; }, { once: true });
  }

  function isBack() {
    const entry = performance.getEntriesByType("navigation")[0];
    return entry && (entry.type === "back_forward" || entry.type === "reload" && wasReloadedByHtmx());
  }

  // htmx reloads a page of which it has no copy.
  function wasReloadedByHtmx() {
    const was = sessionStorage.getItem("going-back") === here();
    sessionStorage.removeItem("going-back");
    return was;
  }
  window.addEventListener("popstate", (event) => {
    if (!event.state || !event.state.htmx) return;
    try {
      sessionStorage.setItem("going-back", here());
    } catch {
      // As above.
    }
  });

  // The list was left for another of its pages (lists.js).
  function isPageOfList(one) {
    return one.at.split("?")[0] === one.to;
  }

  // Scroll tabs that do not fit, so that the current one is visible.
  for (const tab of document.querySelectorAll(".tabs [aria-current]")) {
    tab.parentElement.scrollLeft = tab.offsetLeft - tab.parentElement.offsetLeft - 16;
  }

  // The link from a page back to the list from which it was opened.
  for (const back of document.querySelectorAll("[data-back]")) {
    const left = read().findLast((one) => one.to === location.pathname && !isPageOfList(one));
    if (!left) continue;
    back.href = left.at;
    back.querySelector("[data-back-name]").textContent = left.title;
    back.parentElement.hidden = false;
    back.addEventListener("click", (event) => {
      const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0;
      if (isPlain) sessionStorage.setItem("going-back-to", left.at);
    });
  }

  function isSent() {
    const was = sessionStorage.getItem("going-back-to") === here();
    sessionStorage.removeItem("going-back-to");
    return was;
  }

  try {
    if (isSent() || isBack()) settle();
  } catch {
    // Storage is disabled.
  }
})();

// Passkeys: a form with data-passkey gets its credential from the browser before it is sent.
(function () {
  "use strict";
  const LOCAL = /^(127\.[\d.]+|\[::1\])$/.test(location.hostname);
  const AT_ADDRESS = LOCAL || /^([\d.]+|\[.*\])$/.test(location.hostname);
  const BY_NAME = LOCAL ? location.href.replace(location.hostname, "localhost").replace(/[?#].*/, "") : "the hub by its name";
  const FAILED = AT_ADDRESS
    ? `Passkeys do not work at an IP address. Open ${BY_NAME} instead.`
    : "The browser did not use a passkey. Passkeys need HTTPS, or the name localhost.";

  async function options(form) {
    const stored = document.getElementById("passkey-options");
    if (stored) return JSON.parse(stored.textContent).publicKey;
    const response = await fetch(form.action, { headers: { Accept: "application/json" } });
    return (await response.json()).request_options.publicKey;
  }

  async function credential(form) {
    const json = await options(form);
    if (form.dataset.passkey === "create") {
      return navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(json) });
    }
    return navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(json) });
  }

  if (!window.PublicKeyCredential?.parseRequestOptionsFromJSON) return;
  for (const form of document.querySelectorAll("form[data-passkey]")) {
    form.hidden = false;
    const error = form.querySelector("[role=alert]");
    const fail = () => {
      error.textContent = FAILED;
      error.hidden = false;
    };
    if (AT_ADDRESS && form.dataset.passkey === "create") fail();
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      error.hidden = true;
      try {
        form.elements.credential.value = JSON.stringify((await credential(form)).toJSON());
        form.submit();
      } catch {
        fail();
      }
    });
  }
})();
