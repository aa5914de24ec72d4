// Zooming and moving the graph of facts, its keys, and opening a node in place. Without this file, every node is a
// link that opens it, and the picture scrolls.
(function () {
  "use strict";
  const NEAREST = 0.12; // smallest visible part of the width
  const FAR = 2.3; // pixels of the picture for one of the screen; from here on, edges have no labels
  const LETTER = 6.6;
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  let still = new Map(); // positions of nodes in the previous picture
  let wanted = null; // the node to focus in the next picture

  function begin(view) {
    const svg = view.querySelector("svg.graph");
    if (!svg || svg.dataset.live) return;
    svg.dataset.live = "yes";
    const frame = svg.closest(".graph-frame");
    frame.classList.add("is-live");
    if (svg.clientHeight > svg.clientWidth) transpose(svg);
    const whole = svg.viewBox.baseVal;
    const full = { x: whole.x, y: whole.y, w: whole.width, h: whole.height };
    const nodes = [...svg.querySelectorAll("a.node")].map(read);
    const open = nodes.find((node) => node.element.getAttribute("aria-current") === "true");
    const edges = svg.querySelectorAll(".edges .edge");
    const words = [...svg.querySelectorAll(".edge-name")].map((text) => spots(text, edges[text.dataset.edge]));
    let box = { ...full };

    for (const hidden of view.querySelectorAll(".graph-tools, .graph-help")) hidden.hidden = false;

    // Elements that keep their size on the screen are measured in its pixels.
    function show(next) {
      box = next;
      svg.setAttribute("viewBox", [box.x, box.y, box.w, box.h].map((n) => n.toFixed(1)).join(" "));
      const unit = Math.max(box.w / Math.max(svg.clientWidth, 1), 0.05);
      svg.style.setProperty("--unit", unit.toFixed(3));
      frame.classList.toggle("is-far", unit > FAR);
      name(unit);
    }

    // The picture has the aspect ratio of its frame.
    function shape() {
      const { width, height } = svg.getBoundingClientRect();
      return width && height ? height / width : full.h / full.w;
    }
    const widest = () => Math.max(full.w, full.h / shape());
    function all() {
      const w = widest();
      return within(full.x + (full.w - w) / 2, 0, w);
    }
    // At first the picture is readable. If it is wider than the screen, the open node is in the middle.
    function first() {
      const w = full.h / shape();
      if (w > full.w * 0.8) return all();
      const about = open || { x: full.x + full.w / 2, y: full.y + full.h / 2 };
      return within(about.x - w / 2, about.y - (w * shape()) / 2, w);
    }

    // Show the labels that have room at this size, the most important first, and none across the edge.
    function name(unit) {
      const from = Math.max(full.x, box.x + 6 * unit);
      const to = Math.min(full.x + full.w, box.x + box.w - 6 * unit);
      const taken = nodes.map((n) => [n.x - n.r, n.y - n.r, n.x + n.r, n.y + n.r]);
      nodes.forEach((node, number) => {
        const width = node.label * LETTER * unit;
        const gap = node.r + 5 * unit;
        const high = 12 * unit;
        const right = [1, "start", 0];
        const left = [-1, "end", width];
        const sides = node.x < full.w / 2 ? [left, right] : [right, left]; // outer side first
        const ways = sides.map(([way, end, back]) => [node.x + way * gap, node.y + 4 * unit, end, back]);
        ways.push([node.x, node.y + gap + 9 * unit, "middle", width / 2]);
        ways.push([node.x, node.y - gap, "middle", width / 2]);
        for (const y of [node.y + node.r + 9 * unit, node.y - node.r - unit]) {
          for (const [way, end, back] of sides) {
            ways.push([node.x + way * (node.r * 0.75 + 2 * unit), y, end, back]);
          }
        }
        const places = ways.map(([x, y, anchor, back]) => {
          const room = [x - back, y - high, x - back + width, y + 4 * unit];
          const crossed = node.links.some((other) => passes(node, nodes[other], room));
          return { x, y, anchor, room, crossed };
        });
        places.sort((one, other) => one.crossed - other.crossed); // places that cross no edge of the node first
        const found = places.find(({ room }) => {
          if (room[0] < from || room[2] > to) return false;
          return !taken.some((other, i) => i !== number && covers(room, other));
        });
        if (found) taken.push(found.room);
        const inwards = node.x < full.w / 2 ? "start" : "end";
        const { x, y, anchor } = found || places.find((place) => place.anchor === inwards);
        node.element.classList.toggle("is-quiet", !found);
        node.text.setAttribute("x", x);
        node.text.setAttribute("y", y);
        node.text.setAttribute("text-anchor", anchor);
      });
      for (const { text, places } of words) {
        const half = (text.textContent.length * LETTER * unit) / 2;
        const rooms = places.map(({ x, y }) => [x - half, y - 8 * unit, x + half, y + 8 * unit]);
        const free = rooms.findIndex(
          (room) => room[0] >= from && room[2] <= to && !taken.some((other) => covers(room, other)),
        );
        text.classList.toggle("is-cut", free < 0);
        if (free < 0) continue;
        taken.push(rooms[free]);
        text.setAttribute("x", places[free].x.toFixed(1));
        text.setAttribute("y", places[free].y.toFixed(1));
      }
    }

    function zoom(factor, at) {
      const w = Math.min(Math.max(box.w * factor, full.w * NEAREST), widest());
      const x = at.x - ((at.x - box.x) * w) / box.w;
      const y = at.y - ((at.y - box.y) * w) / box.w;
      show(within(x, y, w));
    }

    // Keep the view inside the picture, or centre a picture that is smaller than its frame.
    function within(x, y, w) {
      const h = w * shape();
      const clamp = (at, size, low, high) =>
        size > high ? low + (high - size) / 2 : Math.min(Math.max(at, low), low + high - size);
      return { x: clamp(x, w, full.x, full.w), y: clamp(y, h, full.y, full.h), w, h };
    }

    const middle = () => ({ x: box.x + box.w / 2, y: box.y + box.h / 2 });
    function at(event) {
      const seen = svg.getBoundingClientRect();
      return {
        x: box.x + ((event.clientX - seen.left) / seen.width) * box.w,
        y: box.y + ((event.clientY - seen.top) / seen.height) * box.h,
      };
    }

    function size(way, point) {
      if (way === "in") zoom(0.7, point || middle());
      else if (way === "out") zoom(1 / 0.7, point || middle());
      else show(all());
    }

    for (const button of view.querySelectorAll("[data-zoom]")) {
      button.addEventListener("click", () => size(button.dataset.zoom));
    }

    svg.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
        event.preventDefault();
        zoom(Math.exp(event.deltaY * 0.004), at(event));
      },
      { passive: false },
    );

    // One finger or the mouse moves the picture, two fingers zoom it.
    const fingers = new Map();
    let moved = 0;
    svg.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      fingers.set(event.pointerId, event);
      if (fingers.size === 1) moved = 0;
    });
    svg.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId);
      if (!before) return;
      const others = [...fingers.values()].filter((one) => one.pointerId !== event.pointerId);
      moved += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
      if (others.length) {
        const [other] = others;
        const was = Math.hypot(before.clientX - other.clientX, before.clientY - other.clientY);
        const is = Math.hypot(event.clientX - other.clientX, event.clientY - other.clientY);
        if (is > 0) zoom(was / is, at(event));
      } else if (moved > 4) {
        if (!svg.hasPointerCapture(event.pointerId)) svg.setPointerCapture(event.pointerId);
        frame.classList.add("is-dragged");
        const scale = box.w / Math.max(svg.clientWidth, 1);
        const x = box.x - (event.clientX - before.clientX) * scale;
        const y = box.y - (event.clientY - before.clientY) * scale;
        show(within(x, y, box.w));
      }
      fingers.set(event.pointerId, event);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      svg.addEventListener(end, (event) => {
        fingers.delete(event.pointerId);
        if (!fingers.size) frame.classList.remove("is-dragged");
      });
    }
    svg.addEventListener("dragstart", (event) => event.preventDefault());

    // Highlight the connections of a hovered or focused node.
    const lit = svg.querySelector(".edge-lit");
    function look(node) {
      svg.classList.toggle("is-looking", Boolean(node));
      for (const one of nodes) one.element.classList.remove("is-lit");
      lit.setAttribute("d", "M0 0");
      if (!node) return;
      node.element.classList.add("is-lit");
      const others = node.links.map((number) => nodes[number]).filter(Boolean);
      for (const other of others) other.element.classList.add("is-lit");
      lit.setAttribute("d", others.map((o) => `M${node.x} ${node.y}L${o.x} ${o.y}`).join("") || "M0 0");
    }
    const nodeOf = (event) => {
      const element = event.target.closest("a.node");
      return element && nodes.find((node) => node.element === element);
    };
    svg.addEventListener("pointerover", (event) => look(nodeOf(event)));
    svg.addEventListener("pointerleave", () => look(null));

    // The graph is one Tab stop; the arrow keys move between its nodes.
    function stop(node) {
      for (const one of nodes) one.element.setAttribute("tabindex", one === node ? "0" : "-1");
    }
    stop(open || nodes[0]);
    // The listener is on the frame: an SVG with a focus listener becomes focusable itself.
    frame.addEventListener("focusin", (event) => {
      const node = nodeOf(event);
      if (!node) return;
      stop(node);
      look(node);
      if (node.x < box.x || node.x > box.x + box.w || node.y < box.y || node.y > box.y + box.h) {
        show(within(node.x - box.w / 2, node.y - box.h / 2, box.w));
      }
    });
    frame.addEventListener("focusout", () => look(null));
    svg.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const node = nodeOf(event);
      const way = { "+": "in", "=": "in", "-": "out", 0: "all" }[event.key];
      if (way) {
        event.preventDefault();
        event.stopPropagation();
        size(way, node);
        return;
      }
      const arrow = ARROWS[event.key];
      const next = node && arrow && nearest(node, arrow);
      if (arrow) event.preventDefault();
      if (next) next.element.focus({ preventScroll: true });
    });
    function nearest(from, [right, down]) {
      let best = null;
      let least = Infinity;
      for (const node of nodes) {
        const along = (node.x - from.x) * right + (node.y - from.y) * down;
        const aside = Math.abs((node.x - from.x) * down) + Math.abs((node.y - from.y) * right);
        const far = along + 2 * aside;
        if (node !== from && along > 0 && aside < 2 * along + 1 && far < least) [best, least] = [node, far];
      }
      return best;
    }

    svg.addEventListener("click", (event) => {
      const element = event.target.closest("a.node");
      if (moved > 4) {
        moved = 0;
        event.preventDefault();
        return;
      }
      if (!element || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      go(element.getAttribute("href"), element.dataset.key);
    });
    function go(href, key) {
      still = new Map(nodes.map((node) => [node.key, node]));
      wanted = key;
      window.htmx.ajax("GET", href, { source: view, target: view, swap: "outerHTML" });
    }

    let seen = 0;
    new ResizeObserver(() => {
      if (svg.clientWidth === seen) return;
      seen = svg.clientWidth;
      show(first());
    }).observe(svg);
    show(first());
    arrive(view, svg, nodes);
  }

  // After a node is opened, known nodes move to their new positions, and the open node keeps the focus.
  function arrive(view, svg, nodes) {
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (still.size && !calm) {
      for (const node of nodes) {
        const before = still.get(node.key);
        const from = before ? `translate(${before.x - node.x}px, ${before.y - node.y}px)` : "none";
        const frames = [{ transform: from, opacity: before ? 1 : 0 }, { transform: "none", opacity: 1 }];
        node.element.animate(frames, { duration: 350, easing: "ease-out" });
      }
      for (const edges of svg.querySelectorAll(".edges, .edge-name")) {
        edges.animate([{ opacity: 0 }, { opacity: 0 }, { opacity: 1 }], { duration: 450 });
      }
    }
    still = new Map();
    if (wanted === null) return;
    const same = nodes.find((node) => node.key === wanted);
    wanted = null;
    if (same) same.element.focus({ preventScroll: true });
    const status = document.getElementById("graph-status");
    if (status) status.textContent = view.dataset.status;
  }

  // Exchange across and down, so that the whole picture fits a screen that is higher than wide.
  function transpose(svg) {
    const { x, y, width, height } = svg.viewBox.baseVal;
    svg.setAttribute("viewBox", `${y} ${x} ${height} ${width}`);
    for (const path of svg.querySelectorAll(".dust, .edges path")) {
      path.setAttribute("transform", "matrix(0 1 1 0 0 0)");
    }
    for (const [selector, across, down] of [
      ["circle", "cx", "cy"],
      ["text", "x", "y"],
    ]) {
      for (const element of svg.querySelectorAll(selector)) {
        const before = element.getAttribute(across);
        element.setAttribute(across, element.getAttribute(down));
        element.setAttribute(down, before);
      }
    }
  }

  function read(element) {
    const dot = element.querySelector(".node-dot");
    const text = element.querySelector(".node-name");
    const number = (name) => Number(dot.getAttribute(name));
    return {
      element,
      text,
      key: element.dataset.key,
      label: text.textContent.length,
      links: element.dataset.links.split(" ").filter(Boolean).map(Number),
      x: number("cx"),
      y: number("cy"),
      r: number("r"),
    };
  }

  // The places where the label of an edge can be: where it is, or elsewhere on the edge if that is a line.
  function spots(text, edge) {
    const places = [{ x: Number(text.getAttribute("x")), y: Number(text.getAttribute("y")) }];
    if (edge && !edge.getAttribute("d").includes("C")) {
      const length = edge.getTotalLength();
      const turned = edge.hasAttribute("transform");
      for (const share of [0.5, 0.62, 0.38, 0.72, 0.28, 0.82]) {
        const { x, y } = edge.getPointAtLength(length * share);
        places.push(turned ? { x: y, y: x } : { x, y });
      }
    }
    return { text, places };
  }

  function covers(one, other) {
    return one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];
  }

  // Whether the line between two nodes crosses a box (Liang-Barsky clipping).
  function passes(from, to, box) {
    let enters = 0;
    let leaves = 1;
    for (const [way, low, high] of [
      [to.x - from.x, box[0] - from.x, box[2] - from.x],
      [to.y - from.y, box[1] - from.y, box[3] - from.y],
    ]) {
      if (way) {
        enters = Math.max(enters, Math.min(low / way, high / way));
        leaves = Math.min(leaves, Math.max(low / way, high / way));
      } else if (low >= 0 || high <= 0) return false;
    }
    return enters < leaves;
  }

  const start = () => document.querySelectorAll("#graph-view").forEach(begin);
  document.addEventListener("htmx:afterSettle", start);
  start();
})();
