// Of elements at the same place of repeated rows, with the same tags, types and classes up to the body, return the first and
// the last.
(elements) => {
  const places = new Map();

  function placeOf(element) {
    if (!element) return "";
    if (!places.has(element)) {
      const own = [element.tagName, element.getAttribute("class"), element.getAttribute("type"), element.getAttribute("role")];
      places.set(element, `${placeOf(element.parentElement)} > ${own.join(".")}`);
    }
    return places.get(element);
  }

  const ends = new Map();
  for (const element of elements) {
    const place = placeOf(element);
    ends.set(place, [ends.get(place)?.[0] ?? element, element]);
  }
  return [...new Set([...ends.values()].flat())];
}
