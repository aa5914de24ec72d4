// Each place for the focus shows that it has it, in a colour that stands off, and nothing hides it: what does not.
// chooseEnds (rows.js) leaves the first and the last of repeated rows.
(chooseEnds) => {
  const PLACES = "a[href], button, input, select, textarea, summary, [tabindex], area[href], iframe";
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = "var(--focus)";
  const FOCUS = getComputedStyle(probe).color;
  probe.remove();
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });

  const known = new Map(); // to ask the canvas takes longer than all the rest
  function rgba(colour) {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      known.set(colour, [...canvas.getImageData(0, 0, 1, 1).data]);
    }
    return known.get(colour);
  }

  function luminance(colour) {
    const linear = colour.map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  }

  function contrast(one, other) {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  }

  function ground(element) {
    for (let at = element.parentElement; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255, 255];
  }

  function isPlace(element) {
    return element.tabIndex >= 0 && !element.disabled && !element.closest("[inert], dialog:not([open])")
      && element.checkVisibility({ visibilityProperty: true });
  }

  // In a picture the ring is drawn; elsewhere it is an outline.
  function ringColour(at) {
    const style = getComputedStyle(at);
    if (at instanceof SVGElement && style.stroke !== "none" && parseFloat(style.strokeWidth) > 0) {
      return style.stroke === FOCUS ? style.stroke : undefined;
    }
    return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 ? style.outlineColor : undefined;
  }

  // The element itself, or what stands for it: the label of a box, a picture beside it, a part of a picture.
  function ringOf(element) {
    if (!element.matches(":focus-visible")) return undefined;
    const near = [...(element.labels ?? []), element, element.nextElementSibling, element.parentElement];
    if (element instanceof SVGElement) near.push(...element.querySelectorAll("*"));
    return near.find((at) => at && at.getBoundingClientRect().width > 4 && ringColour(at));
  }

  // Whether any of nine points of it lies on top; the middle is asked first and mostly does.
  function isSeen(element, ring) {
    const isOnTop = (hit) => hit && (element.contains(hit) || ring && ring.contains(hit)
      || hit.contains(element) && !hit.matches("html, body, main"));
    const boxes = [element, ring].filter(Boolean).flatMap((at) => [...at.getClientRects()]);
    return boxes.some((box) => [0.5, 0.1, 0.9].some((x) => [0.5, 0.2, 0.8]
      .some((y) => isOnTop(document.elementFromPoint(box.left + box.width * x, box.top + box.height * y)))));
  }

  function name(element) {
    const is = element.getAttribute("class") || element.id || element.name || "";
    const says = (element.getAttribute("aria-label") || element.textContent).trim().slice(0, 30);
    return `${element.tagName.toLowerCase()}.${is} ${says}`;
  }

  const wrong = [];
  for (const element of chooseEnds([...document.querySelectorAll(PLACES)].filter(isPlace))) {
    element.focus();
    if (document.activeElement !== element) continue; // folded away meanwhile
    const ring = ringOf(element);
    if (!ring) wrong.push(`no ring: ${name(element)}`);
    else if (contrast(rgba(ringColour(ring)), ground(ring)) < 3) {
      wrong.push(`faint ring: ${name(element)}`);
    }
    if (!isSeen(element, ring)) wrong.push(`hidden while it has the focus: ${name(element)}`);
  }
  document.activeElement.blur();
  window.scrollTo(0, 0);
  return wrong.slice(0, 10);
}
