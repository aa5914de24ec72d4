// Conveniences. Every page works without this file.
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
      localStorage.setItem("theme-beside", root.dataset.chosen || "");
    } catch {
      // It lasts for this page only.
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

  // How long ago something was stays true while a page stays open; words as the hub writes them.
  const STEPS = [["month", 2629800], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60]];

  function ago(at) {
    const seconds = (Date.now() - at) / 1000;
    const [unit, size] = STEPS.find((step) => Math.abs(seconds) >= step[1]) || ["", 0];
    if (!unit) return seconds >= 0 ? "just now" : "in a moment";
    const count = Math.floor(Math.abs(seconds) / size);
    const words = count + "\u00a0" + unit + (count === 1 ? "" : "s");
    return seconds > 0 ? words + " ago" : "in " + words;
  }

  setInterval(() => {
    if (document.hidden) return;
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const words = ago(Date.parse(time.dateTime));
      if (time.textContent !== words) time.textContent = words;
    }
  }, 60_000);

  // What htmx could not fetch is said, not swallowed.
  const failure = document.getElementById("failure");
  function say(text) {
    if (!failure) return;
    failure.textContent = text;
    failure.hidden = !text;
  }
  document.addEventListener("htmx:sendError", () => say("The hub does not answer. Check the connection and try again."));
  document.addEventListener("htmx:responseError", () => say("That did not work. Reload the page and try again."));
  document.addEventListener("htmx:afterOnLoad", (event) => event.detail.successful && say(""));
})();
