// Shows dates in the language and time zone of the viewer. Without this script they are in ISO format.
(function () {
  "use strict";
  const { language, zone } = document.documentElement.dataset;
  const locale = Intl.DateTimeFormat(language || undefined).resolvedOptions().locale;
  const timeZone = isZone(zone) ? zone : undefined;
  const FORMATS = {
    day: { dateStyle: "medium" },
    week: { dateStyle: "medium" },
    weekday: { weekday: "short", day: "numeric", month: "short" },
    whole: { dateStyle: "full" },
    short: { day: "numeric", month: "short" },
    month: { month: "long", year: "numeric" },
    year: { year: "numeric" },
    axis: { month: "short", year: "numeric" },
    minute: { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" },
    second: { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" },
    clock: { timeStyle: "short", hourCycle: "h23" },
  };
  const UNITS = [["year", 31557600], ["month", 2629800], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60]];
  const NO_BREAK = "\u00a0"; // a line breaks only between a date and its relative time
  const RELATIVE_MS = 30 * 86_400_000; // older times are shown with their date, too
  const relative = new Intl.RelativeTimeFormat("en");

  function isZone(name) {
    try {
      return Boolean(name && new Intl.DateTimeFormat("en", { timeZone: name }));
    } catch {
      return false; // The server knows more zones than this browser.
    }
  }

  function absolute(stamp, format) {
    // A date without a time is the same day in every time zone.
    return new Date(stamp).toLocaleString(locale, { ...FORMATS[format], timeZone: stamp.includes("T") ? timeZone : "UTC" });
  }

  function ago(stamp) {
    const seconds = (Date.now() - Date.parse(stamp)) / 1000;
    const [unit, size] = UNITS.find((one) => Math.abs(seconds) >= one[1]) || [];
    if (!unit) return seconds >= 0 ? "just now" : "in a moment";
    // Something that lasts 7 days must not end "in 6 days" a moment later.
    const count = seconds > 0 ? -Math.floor(seconds / size) : Math.round(-seconds / size);
    return relative.format(count, unit).replaceAll(" ", NO_BREAK);
  }

  function show(time) {
    const { format } = time.dataset;
    const stamp = time.dateTime || time.dataset.at; // an axis label has no datetime
    let text = format in FORMATS ? absolute(stamp, format) : ago(stamp);
    if (format === "dated" && Math.abs(Date.now() - Date.parse(stamp)) >= RELATIVE_MS) {
      text = `${absolute(stamp, "day").replaceAll(" ", NO_BREAK)} (${text})`;
    }
    if (format in FORMATS && !locale.startsWith("en")) time.setAttribute("lang", locale);
    if (time.textContent !== text) time.textContent = text;
  }

  function showAll(root, selector) {
    root.querySelectorAll(selector).forEach(show);
  }

  window.showDates = (root) => showAll(root, "[data-format]");
  window.showDates(document);
  document.addEventListener("htmx:load", (event) => {
    if (event.target.matches("[data-format]")) show(event.target);
    window.showDates(event.target);
  });
  setInterval(() => document.hidden || showAll(document, "time[data-format=ago], time[data-format=dated]"), 60_000);
})();
