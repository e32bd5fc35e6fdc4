// Elements of the page. Text from anywhere is only ever set as text, never as markup.

/** @typedef {string | number | boolean | null | undefined} AttributeValue */

/**
 * Makes an element. An attribute of `true` has no value; one of false or nothing is left
 * out.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, AttributeValue>} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children);
  return node;
}
