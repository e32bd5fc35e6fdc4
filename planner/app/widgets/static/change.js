// Changes of an element that leave alone what is so already: a screen reader would say
// it again, and the page be laid out again.

let lastId = 0;
const PREFIX = `pc-${Math.random().toString(36).slice(2, 8)}-`;

/** Returns an id that no other element of the page has. */
export function newId() {
  lastId += 1;
  return `${PREFIX}${lastId}`;
}

/**
 * @param {Node} node
 * @param {string} text
 */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * @param {Element} node
 * @param {string} name
 * @param {string | number | null} value null takes the attribute away
 */
export function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, String(value));
  }
}
