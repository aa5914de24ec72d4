// Live updates. The page asks the hub regularly, but not while it is hidden or paused. Changes that would move what
// someone reads wait behind a button.
(function () {
  "use strict";
  const box = document.getElementById("live");
  if (!box || !window.fetch) return;
  const pauseButton = document.getElementById("live-turn");
  const pauseLabel = document.getElementById("live-words");
  const show = document.getElementById("live-show");
  const status = document.getElementById("live-status");
  const INTERVAL_MS = Number(box.dataset.every) * 1000;
  const IDLE_MS = 60_000; // without input for so long, no one is reading
  let etag = box.dataset.mark;
  let waiting = null; // the newest version of the page
  let failures = 0;
  let timer = 0;
  let lastInputAt = Date.now();
  let isIncomplete = false; // focused or selected parts were not updated
  let isSignedOut = false; // the session has ended
  let isOn = true;
  try {
    isOn = localStorage.getItem("live") !== "off";
  } catch {
    // The choice lasts for this page only.
  }

  // ------------------------------------------------------------------ presence

  function isInUse(element) {
    const selection = window.getSelection();
    const isSelected = !selection.isCollapsed && selection.containsNode(element, true);
    return isSelected || (element !== document.body && element.contains(document.activeElement));
  }

  function isVisible(element) {
    const at = element.getBoundingClientRect();
    return at.bottom > 0 && at.top < window.innerHeight;
  }

  // Focus on the whole page or on the switch does not count as reading.
  function isIdle() {
    const parts = [...document.getElementById("main").children].filter((part) => part !== box);
    return Date.now() - lastInputAt > IDLE_MS && !parts.some(isInUse);
  }

  // ------------------------------------------------------------------ what changed

  function key(row) {
    const link = row.querySelector("a[href]");
    return row.dataset.key || row.id || (link ? link.getAttribute("href") : row.textContent);
  }

  function keys(list) {
    return [...list.children].map(key);
  }

  function movesVisibleRow(list, fresh) {
    const rows = [...list.children];
    const last = rows.findLastIndex(isVisible);
    if (last < 0) return false;
    const now = keys(list).slice(0, last + 1);
    const then = keys(fresh).slice(0, last + 1);
    if (now.some((one, index) => one !== then[index])) return true;
    return rows.some((row, index) => nested(row, fresh.children[index], movesVisibleRow));
  }

  function nested(row, fresh, holds) {
    if (!fresh) return false;
    const lists = [...row.querySelectorAll("[data-live=rows]")];
    const others = [...fresh.querySelectorAll("[data-live=rows]")];
    return lists.some((one, index) => others[index] && holds(one, others[index]));
  }

  // ------------------------------------------------------------------ updating

  // Rows are matched by id, so each gets one from its key.
  function nameRows(root) {
    for (const list of root.querySelectorAll("[data-live=rows]")) {
      for (const row of list.children) row.id ||= list.id + ":" + key(row);
    }
  }

  function isList(element) {
    return element.dataset.live === "rows" || element.querySelector("[data-live=rows]");
  }

  const MORPH_OPTIONS = {
    restoreFocus: true,
    callbacks: {
      beforeNodeMorphed(old, fresh) {
        if (!(old instanceof HTMLElement) || old.outerHTML === fresh.outerHTML) return;
        if (isList(old) || !isInUse(old)) return;
        isIncomplete = true;
        return false;
      },
      // Selected and opened elements stay so.
      beforeAttributeUpdated: (name) => name !== "checked" && name !== "open",
      afterNodeAdded(node) {
        if (!(node instanceof HTMLElement)) return;
        if (node.parentElement.dataset.live === "rows") node.classList.add("is-new");
        if (window.htmx) window.htmx.process(node);
      },
      beforeNodeRemoved(node) {
        if (node.parentElement.dataset.live !== "rows") return;
        return !isInUse(node) && !node.querySelector("input:checked");
      },
    },
  };

  function morphInto(element, html) {
    Idiomorph.morph(element, html, { ...MORPH_OPTIONS, morphStyle: "innerHTML" });
  }

  // A visible part that would change its size is not updated, unless someone asked for it.
  function morphPart(part, fresh, all) {
    if (part.innerHTML === fresh.innerHTML) return true;
    if (isInUse(part)) {
      isIncomplete = true;
      return true;
    }
    const before = part.innerHTML;
    const height = part.offsetHeight;
    const isStill = all || !isVisible(part);
    morphInto(part, fresh.innerHTML);
    if (isStill || Math.abs(part.offsetHeight - height) < 2) return true;
    morphInto(part, before);
    return false;
  }

  function regions(page) {
    return [...page.querySelectorAll("main [data-live]")].filter((one) => !one.parentElement.closest("[data-live]"));
  }

  // Update what may change, and return whether something must wait. `all`: someone asked for it.
  function applyUpdate(page, all) {
    const fresh = new Map(regions(page).map((one) => [one.id, one]));
    const here = regions(document);
    const isOther = here.length !== fresh.size || here.some((one) => !fresh.has(one.id));
    if (isOther) {
      if (all || !here.length) window.location.reload();
      return !all;
    }
    let waits = false;
    for (const region of here) {
      const other = fresh.get(region.id);
      if (region.dataset.live === "part") waits = !morphPart(region, other, all) || waits;
      else if (!all && movesVisibleRow(region, other)) waits = true;
      else morphInto(region, other.innerHTML);
    }
    return waits;
  }

  function settle() {
    if (!waiting) return;
    isIncomplete = false;
    const waits = applyUpdate(waiting, isIdle());
    if (!waits && !isIncomplete) waiting = null;
    if (waits && show.hidden) status.textContent = "Something is new. A button at the top of the page shows it.";
    if (!waits) status.textContent = "";
    show.hidden = !waits;
  }

  show.addEventListener("click", () => {
    const page = waiting;
    show.hidden = true;
    waiting = null;
    status.textContent = "";
    document.getElementById("main").focus({ preventScroll: true });
    if (page) applyUpdate(page, true);
  });

  // ------------------------------------------------------------------ requests

  async function fetchPage() {
    const address = window.location.href.split("#")[0];
    try {
      const response = await fetch(address, {
        headers: { "If-None-Match": '"' + etag + '"' },
        redirect: "manual",
      });
      isSignedOut = response.type === "opaqueredirect";
      if (isSignedOut) {
        showState();
        return;
      }
      failures = response.status === 200 || response.status === 304 ? 0 : failures + 1;
      if (response.status === 200) {
        etag = (response.headers.get("ETag") || "").replaceAll(/W\/|"/g, "");
        waiting = new DOMParser().parseFromString(await response.text(), "text/html");
        window.showDates(waiting);
        nameRows(waiting);
      }
    } catch {
      failures += 1; // No connection: try again, less and less often.
    }
    showState();
    if (isOn && address === window.location.href.split("#")[0]) settle();
    schedule();
  }

  function schedule() {
    clearTimeout(timer);
    if (isOn && !document.hidden) timer = setTimeout(fetchPage, INTERVAL_MS * 2 ** Math.min(failures, 5));
  }

  // One failed request may be a restart of the hub; report the second.
  function showState() {
    const isLost = failures > 1;
    box.classList.toggle("is-on", isOn && !isLost && !isSignedOut);
    if (isSignedOut) pauseLabel.textContent = "Signed out: reload to sign in";
    else if (!isOn) pauseLabel.textContent = "Resume live updates";
    else pauseLabel.textContent = isLost ? "Pause live updates (no answer)" : "Pause live updates";
  }

  pauseButton.addEventListener("click", () => {
    if (isSignedOut) {
      window.location.reload();
      return;
    }
    isOn = !isOn;
    try {
      localStorage.setItem("live", isOn ? "on" : "off");
    } catch {
      // The choice lasts for this page only.
    }
    showState();
    clearTimeout(timer);
    if (isOn) fetchPage();
    else show.hidden = true;
  });

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (isOn && !document.hidden) fetchPage();
  });

  for (const name of ["pointerdown", "keydown", "wheel", "touchstart", "focusin"]) {
    document.addEventListener(name, () => (lastInputAt = Date.now()), { passive: true });
  }

  // Ignore the event that browsers send when the page moves under a resting pointer.
  let pointerAt = "";
  for (const name of ["pointermove", "pointerdown"]) {
    document.addEventListener(name, (event) => {
      const at = event.screenX + " " + event.screenY;
      if (pointerAt && at !== pointerAt) lastInputAt = Date.now();
      pointerAt = at;
    });
  }

  // The list has changed: discard what was fetched for the previous one.
  document.addEventListener("htmx:afterSwap", (event) => {
    if (!event.target.closest("#main")) return;
    waiting = null;
    show.hidden = true;
  });

  nameRows(document);
  box.hidden = false;
  showState();
  schedule();
})();
