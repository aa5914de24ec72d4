// Run axe on the text whose look is not in `known`, and return all looks with the violations.
// Text in the normal flow that looks the same has the same contrast: the same elements and classes up to the body, all with
// the same colours, size and weight. Text in elements that can lie over others is always compared.
async ([known, options]) => {
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

  const isShown = (element) => element.checkVisibility({ visibilityProperty: true });
  const hasText = (element) => element.matches("input, select, textarea")
    || [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  const looks = new Set(known);
  const compared = [...document.body.querySelectorAll("*")].filter((element) => {
    if (!hasText(element) || !isShown(element)) return false;
    const { look, lies } = keyOf(element);
    const isNew = lies || !looks.has(look);
    looks.add(look);
    return isNew;
  });
  const { violations } = compared.length ? await axe.run({ include: compared }, options) : { violations: [] };
  return [[...looks], violations];
}
