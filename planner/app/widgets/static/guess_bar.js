// A GPU's bar whose parts are sized by dragging their edges, by keys or by numbers; the KV
// cache is what is left, as in vLLM.

import { newId, setAttribute, setText } from "./change.js";
import { make } from "./make.js";

/**
 * @typedef {{ name: string, fill: string, ink: string }} BarPart
 * @typedef {{ total: number, parts: BarPart[] }} Bar sizes in GiB
 */

const REST = "KV cache"; // what the others leave
const BEGIN = 0.1; // share of each other part at first
const STEP = 0.1;
const PAGE = 1;
const NAME_PIXELS = 77; // that a segment needs for its name, between its edges

/** @param {number} gib */
export const written = (gib) => gib.toFixed(2);

/**
 * Returns the points of a guess, 0 to 100: 100 minus the differences of all parts as a
 * percentage of the GPU's memory.
 *
 * @param {number[]} guess
 * @param {number[]} actual
 * @param {number} total
 */
export function points(guess, actual, total) {
  const wrong = actual.reduce((sum, size, at) => sum + Math.abs(size - guess[at]), 0);
  return Math.max(0, Math.round(100 - (100 * wrong) / total));
}

/** The sizes of a guess: all but the KV cache are free, within the total. */
export class Sizes {
  /** @param {Bar} bar */
  constructor({ parts, total }) {
    this.total = total;
    this.rest = parts.findIndex(({ name }) => name === REST);
    this.all = parts.map(() => BEGIN * total);
    this.close();
  }

  /** Gives the KV cache what is left. */
  close() {
    this.all[this.rest] = 0;
    this.all[this.rest] = this.total - this.all.reduce((sum, size) => sum + size, 0);
  }

  /** @param {number} at */
  most(at) {
    return this.all[at] + this.all[this.rest];
  }

  /** @param {number} at @param {number} size */
  set(at, size) {
    const most = this.most(at);
    this.all[at] = Math.min(Math.max(size, 0), most);
    this.close();
  }

  /** @param {number} at where a part begins */
  start(at) {
    return this.all.slice(0, at).reduce((sum, size) => sum + size, 0);
  }
}

/**
 * @param {BarPart[]} parts
 * @param {string} name
 */
export function emptyBar(parts, name) {
  const segments = parts.map(({ name: label, fill, ink }) => {
    const size = make("b");
    const segment = make(
      "span",
      { class: "pg-segment" },
      make("span", {}, label),
      size,
    );
    segment.style.background = fill;
    segment.style.color = ink || "inherit";
    return { segment, size };
  });
  const bar = make("div", { class: "pg-bar" });
  bar.append(...segments.map(({ segment }) => segment));
  const node = make("div", { class: "pg-row" }, make("p", { class: "pg-name" }, name));
  node.append(bar);
  /** @param {number[]} sizes @param {number} total */
  const write = (sizes, total) => {
    const width = bar.clientWidth || 600;
    sizes.forEach((gib, at) => {
      const { segment, size } = segments[at];
      segment.style.width = `${(100 * gib) / total}%`;
      segment.classList.toggle("is-narrow", (width * gib) / total < NAME_PIXELS);
      setText(size, `${written(gib)} GiB`);
    });
  };
  return { node, bar, write };
}

/**
 * Adds an edge that is dragged, or moved by keys.
 *
 * @param {HTMLElement} bar
 * @param {string} name
 * @param {Sizes} sizes
 * @param {number} at
 * @param {() => void} changed
 */
export function edge(bar, name, sizes, at, changed) {
  const isLast = at > sizes.rest; // its left edge moves
  const node = make("div", {
    class: "pg-edge",
    role: "slider",
    tabindex: 0,
    "aria-label": name,
    "aria-valuemin": 0,
  });
  const set = (/** @type {number} */ size) => {
    sizes.set(at, size);
    changed();
  };
  const keys = /** @type {Record<string, number>} */ ({
    ArrowRight: STEP,
    ArrowUp: STEP,
    ArrowLeft: -STEP,
    ArrowDown: -STEP,
    PageUp: PAGE,
    PageDown: -PAGE,
    Home: -sizes.total,
    End: sizes.total,
  });
  node.addEventListener("keydown", (event) => {
    const step = keys[event.key];
    if (step === undefined) return;
    event.preventDefault();
    set(Math.round((sizes.all[at] + step) * 100) / 100);
  });
  node.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    node.focus();
    node.setPointerCapture(event.pointerId);
  });
  node.addEventListener("pointermove", (event) => {
    if (!node.hasPointerCapture(event.pointerId)) return;
    const { left, width } = bar.getBoundingClientRect();
    const place = ((event.clientX - left) / width) * sizes.total;
    set(isLast ? sizes.total - place : place - sizes.start(at));
  });
  const show = () => {
    const size = sizes.all[at];
    const place = isLast ? sizes.start(at) : sizes.start(at) + size;
    node.style.left = `${(100 * place) / sizes.total}%`;
    setAttribute(node, "aria-valuenow", written(size));
    setAttribute(node, "aria-valuemax", written(sizes.most(at)));
    setAttribute(node, "aria-valuetext", `${written(size)} GiB`);
  };
  bar.append(node);
  return show;
}

/**
 * Adds the row of a part: a number to type, or what is left.
 *
 * @param {HTMLElement} place
 * @param {BarPart} part
 * @param {Sizes} sizes
 * @param {number} at
 * @param {() => void} changed
 */
export function field(place, { name, fill }, sizes, at, changed) {
  const id = newId();
  const isRest = at === sizes.rest;
  const swatch = make("i", { class: "pg-swatch" });
  swatch.style.background = fill;
  const input = isRest
    ? make("output", { id })
    : make("input", { id, type: "number", min: 0, step: STEP, inputmode: "decimal" });
  const label = make("label", { for: id }, swatch, name);
  place.append(label, make("span", { class: "pg-entry" }, input, " GiB"));
  if (input instanceof HTMLInputElement) {
    input.addEventListener("change", () => {
      sizes.set(at, Number(input.value) || 0);
      changed();
    });
  }
  return () => {
    const text = written(sizes.all[at]);
    if (input instanceof HTMLInputElement) input.value = text;
    else setText(input, text);
  };
}
