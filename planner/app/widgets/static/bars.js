// Moves the bars that plotly has drawn. A step of a slider changes no more of them than
// where each begins and ends, and plotly sets up axes, hatches and hover labels again for
// that: ten times the work.

/**
 * @typedef {object} Bars a trace of horizontal bars, each at a place of its own
 * @property {string} [orientation]
 * @property {string} [xaxis]
 * @property {number[]} [base]
 * @property {number[]} [x]
 *
 * @typedef {object} Room where plotly draws
 * @property {{ l: number, r: number }} [margin]
 *
 * @typedef {{ data: Bars[], layout: Room & Record<string, any> }} BarsFigure
 * @typedef {[from: number, to: number]} Span in pixels
 */

const OUTLINE = /^M([-\d.]+),([-\d.]+)V([-\d.]+)H([-\d.]+)V[-\d.]+Z$/;
const SAME_PIXELS = 0.02; // plotly rounds to hundredths

/**
 * Returns where all bars are from left to right; null for any other figure.
 *
 * @param {BarsFigure} figure
 * @param {number} width
 * @returns {Span[] | null}
 */
export function spansOf({ data, layout }, width) {
  const { margin } = layout;
  /** @type {Span[]} */
  const spans = [];
  for (const { orientation, xaxis = "x", base, x } of data) {
    const range = layout[xaxis.replace("x", "xaxis")]?.range;
    if (orientation !== "h" || !base || !x || !range || !margin) return null;
    const inner = Math.round(width) - margin.l - margin.r; // as plotly has it
    const scale = inner / (range[1] - range[0]);
    const place = (/** @type {number} */ value) => (value - range[0]) * scale;
    x.forEach((size, at) => {
      spans.push([place(base[at]), place(base[at] + size)]);
    });
  }
  return spans;
}

/**
 * Returns all of a figure that is neither moved nor said of a bar. plotly writes into the
 * figure that it draws: so this is to be asked before.
 *
 * @param {BarsFigure} figure
 */
export const looksOf = ({ data, layout }) =>
  JSON.stringify([data, layout], (key, value) =>
    key === "x" || key === "base" || key === "customdata" ? value?.length : value,
  );

/**
 * @param {Element} path
 * @param {Span} span
 */
function isAt(path, [from, to]) {
  const found = OUTLINE.exec(path.getAttribute("d") ?? "");
  if (!found) return false;
  const isNear = (/** @type {string} */ text, /** @type {number} */ pixels) =>
    Math.abs(Number(text) - pixels) <= SAME_PIXELS;
  return isNear(found[1], from) && isNear(found[4], to);
}

/** @param {number} pixels */
const rounded = (pixels) => Math.round(pixels * 100) / 100;

export class DrawnBars {
  /** @param {HTMLElement} node where plotly draws */
  constructor(node) {
    this.node = node;
    /** @type {{ looks: string, width: number, paths: Element[] } | null} */
    this.known = null;
  }

  /**
   * Remembers what plotly has drawn, if its bars are where they are expected.
   *
   * @param {BarsFigure} figure
   * @param {number} width
   * @param {string} looks
   */
  drawn(figure, width, looks) {
    this.known = null;
    const spans = spansOf(figure, width);
    const paths = [...this.node.querySelectorAll(".barlayer .point path")];
    if (!spans?.length || paths.length !== spans.length) return;
    if (!paths.every((path, at) => isAt(path, spans[at]))) return;
    this.known = { looks, width, paths };
  }

  /**
   * Moves the bars to those of a figure that differs in nothing else.
   *
   * @param {BarsFigure} figure
   * @param {number} width
   * @returns {boolean} whether it could; else plotly has to draw
   */
  move(figure, width) {
    const { known } = this;
    const spans = known?.width === width ? spansOf(figure, width) : null;
    // plotly draws a bar of nothing in another way.
    if (!known || !spans || spans.some(([from, to]) => to <= from)) return false;
    if (looksOf(figure) !== known.looks) return false;
    known.paths.forEach((path, at) => {
      const [from, to] = spans[at].map(rounded);
      const outline = (path.getAttribute("d") ?? "").replace(
        OUTLINE,
        `M${from},$2V$3H${to}V$2Z`,
      );
      if (outline !== path.getAttribute("d")) path.setAttribute("d", outline);
    });
    return true;
  }
}
