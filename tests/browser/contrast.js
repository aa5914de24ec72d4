// Return the looks of all text of the page, and store which elements have them, so that axe compares each look once.
// Text in the normal flow that looks the same has the same contrast: the same elements and classes up to the body, all with
// the same colours, size and weight. Text in elements that can lie over others also needs the same looks in its place.
() => {
  const keys = new Map();

  function hash(text) {
    let value = 2166136261;
    for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 16777619);
    return value >>> 0;
  }

  function keyOf(element) {
    if (!element) return { look: 0, lies: false };
    if (!keys.has(element)) {
      const parent = keyOf(element.parentElement);
      const style = getComputedStyle(element);
      const own = [element.tagName, element.getAttribute("class"), style.color, style.fontSize, style.fontWeight,
        style.backgroundColor, style.backgroundImage, style.opacity, style.textDecorationLine, style.textShadow];
      const lies = parent.lies || ["absolute", "fixed"].includes(style.position);
      keys.set(element, { look: hash(`${parent.look} ${own.join(" ")}`), lies });
    }
    return keys.get(element);
  }

  const all = [...document.body.querySelectorAll("*")];
  const boxes = new Map();

  function boxOf(element) {
    if (!boxes.has(element)) boxes.set(element, element.getBoundingClientRect());
    return boxes.get(element);
  }

  // The looks of everything that shares the place of an element, in the order of the document.
  function looksAround(element) {
    const box = boxOf(element);
    const isNear = (other) => other.left < box.right && other.right > box.left
      && other.top < box.bottom && other.bottom > box.top;
    return all.filter((other) => isNear(boxOf(other)) && !other.contains(element)).map((other) => keyOf(other).look);
  }

  const isShown = (element) => element.checkVisibility({ visibilityProperty: true });
  const hasText = (element) => element.matches("input, select, textarea")
    || [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  window.textByLook = new Map();
  for (const element of all) {
    if (!hasText(element) || !isShown(element)) continue;
    const key = keyOf(element);
    const look = key.lies ? hash(`${key.look} ${looksAround(element).join(" ")}`) : key.look;
    if (!window.textByLook.has(look)) window.textByLook.set(look, element);
  }
  return [...window.textByLook.keys()];
}
