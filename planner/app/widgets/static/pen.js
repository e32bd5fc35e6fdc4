// SVG on the page: elements, texts and their widths.

export const FONT_PIXELS = 12;
export const FAMILY = `system-ui, "Segoe UI", "Noto Sans", "Liberation Sans", sans-serif`;
const FONT = `${FONT_PIXELS}px ${FAMILY}`;
const SVG = "http://www.w3.org/2000/svg";
const WIDER = 7; // a letter, where no canvas measures it

/** @type {Map<string, number>} */
const WIDTHS = new Map();
/** @type {CanvasRenderingContext2D | null | undefined} */
let canvas;

/**
 * Returns the width of a text in the labels' font; measured once, apart from the page, so
 * that it costs no layout.
 *
 * @type {import("./labels.js").Measure}
 */
export function measured(text) {
  let width = WIDTHS.get(text);
  if (width === undefined) {
    if (canvas === undefined) {
      canvas = document.createElement("canvas").getContext("2d");
      if (canvas) canvas.font = FONT;
    }
    if (WIDTHS.size > 2000) WIDTHS.clear();
    width = canvas ? canvas.measureText(text).width : text.length * WIDER;
    WIDTHS.set(text, width);
  }
  return width;
}

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 * @returns {SVGElement}
 */
export function draw(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    node.setAttribute(key, String(value));
  }
  node.append(...children);
  return node;
}

/**
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {Record<string, string | number>} [more]
 */
export function words(text, x, y, more = {}) {
  return draw("text", { x, y, ...more }, text);
}

/** @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 @param {Record<string, string | number>} more */
export const line = (x1, y1, x2, y2, more) =>
  draw("line", { x1, y1, x2, y2, stroke: "currentColor", ...more });

/**
 * Puts nodes in the place of those of the step before. Equal ones stay, since the browser
 * lays texts out again that are new.
 *
 * @param {Element} place
 * @param {Element[]} nodes
 */
export function replaceChanged(place, nodes) {
  const before = [...place.children];
  nodes.forEach((node, at) => {
    if (!before[at]) place.append(node);
    else if (!before[at].isEqualNode(node)) before[at].replaceWith(node);
  });
  for (const old of before.slice(nodes.length)) old.remove();
}
