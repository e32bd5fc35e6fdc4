// Guess the bar: the learner sizes the parts of a GPU's memory by dragging their edges, by
// keys or by numbers; the KV cache is what is left, as in vLLM. Then the planner's bar
// stands below it, with the differences and a score.

import { newId, setAttribute, setText } from "./change.js";
import { copyText } from "./copy_text.js";
import { make } from "./make.js";

/**
 * @typedef {{ name: string, size: number, why: string[], fill: string, ink: string }}
 *   GuessPart sizes in GiB
 * @typedef {object} GuessRound
 * @property {string} title
 * @property {string} question
 * @property {string} subject
 * @property {number} total
 * @property {GuessPart[]} parts
 * @property {string} command
 *
 * @typedef {{ rounds: GuessRound[] }} Guess
 */

const REST = "KV cache"; // what the others leave
const BEGIN = 0.1; // share of each other part at first
const STEP = 0.1;
const PAGE = 1;
const NAME_PIXELS = 77; // that a segment needs for its name, between its edges

/** @param {number} gib */
const written = (gib) => gib.toFixed(2);
/** @param {number} gib */
const signed = (gib) => `${gib < 0 ? "-" : "+"}${written(Math.abs(gib))}`;

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
  /** @param {GuessRound} round */
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
 * @param {GuessPart[]} parts
 * @param {string} name
 */
function emptyBar(parts, name) {
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
function edge(bar, name, sizes, at, changed) {
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
 * @param {GuessPart} part
 * @param {Sizes} sizes
 * @param {number} at
 * @param {() => void} changed
 */
function field(place, { name, fill }, sizes, at, changed) {
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

/** @param {GuessRound} round @param {number[]} guess */
function comparison({ parts }, guess) {
  const titles = ["Part", "Yours", "Planner", "Difference"];
  const rows = parts.map(({ name, size }, at) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, name),
      ...[written(guess[at]), written(size), signed(guess[at] - size)].map((text) =>
        make("td", { class: "pl-number" }, text),
      ),
    ),
  );
  const heads = titles.map((text, at) =>
    make("th", { scope: "col", class: at ? "pl-number" : null }, text),
  );
  return make(
    "table",
    { class: "pl-lines" },
    make("caption", {}, "In GiB"),
    make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, ...rows),
  );
}

/** @param {GuessRound} round */
function arithmetic({ parts, command }) {
  const folded = make("details", { class: "pl-rank" });
  const lines = parts.flatMap(({ why }) => why.map((text) => make("li", {}, text)));
  folded.append(
    make("summary", {}, "How the planner gets there"),
    make("ul", { class: "pl-notes" }, ...lines),
    make("pre", { class: "pl-plain-command", tabindex: 0 }, command),
  );
  return folded;
}

/**
 * Writes a result to share: the score and the differences, not the answer.
 *
 * @param {GuessRound} round
 * @param {number[]} guess
 */
export function shared(round, guess) {
  const { parts, title, subject, total } = round;
  const actual = parts.map(({ size }) => size);
  const score = points(guess, actual, total);
  const each = parts.map(
    ({ name, size }, at) => `${name} ${signed(guess[at] - size)} GiB`,
  );
  return `${title}: ${score} of 100\n${subject}\n${each.join(" · ")}`;
}

/**
 * @param {HTMLElement} place
 * @param {GuessRound} round
 * @param {() => void} next
 */
function play(place, round, next) {
  const { parts, total } = round;
  const sizes = new Sizes(round);
  const yours = emptyBar(parts, "Your bar");
  const planners = emptyBar(parts, "The planner's bar");
  planners.node.hidden = true;
  const fields = make("div", { class: "pg-fields" });
  /** @type {(() => void)[]} */
  const views = [() => yours.write(sizes.all, total)];
  const changed = () => {
    for (const view of views) view();
  };
  parts.forEach((part, at) => {
    if (at !== sizes.rest) views.push(edge(yours.bar, part.name, sizes, at, changed));
    views.push(field(fields, part, sizes, at, changed));
  });
  const result = make("div", { role: "status", "aria-live": "polite" });
  const details = make("div", { class: "pg-details" });
  const show = make("button", { type: "button", class: "pp-button" }, "Show");
  const other = make("button", { type: "button", class: "pp-button" }, "Next");
  show.addEventListener("click", () => {
    const actual = parts.map(({ size }) => size);
    const guess = [...sizes.all];
    const score = points(guess, actual, total);
    planners.node.hidden = false;
    views.push(() => planners.write(actual, total));
    changed();
    const text = make("pre", { class: "pl-plain-command", tabindex: 0 });
    text.textContent = shared(round, guess);
    const button = make("button", { type: "button", class: "pp-button" }, "Copy");
    button.addEventListener("click", () => copyText(button, text));
    result.replaceChildren(
      make("p", { class: "pg-score" }, make("strong", {}, `${score} of 100`)),
      make(
        "p",
        { class: "pg-formula" },
        "100, minus the differences of all parts as a percentage of the GPU's memory.",
      ),
    );
    details.replaceChildren(
      comparison(round, guess),
      arithmetic(round),
      make("p", { class: "pg-name" }, "To share"),
      text,
      button,
    );
  });
  other.addEventListener("click", next);
  place.replaceChildren(
    make("h2", { class: "pg-title" }, round.title),
    make("p", {}, round.question),
    make(
      "p",
      { class: "pg-formula" },
      "Drag the edges, move them by arrow keys (0.1 GiB; Page Up and Down: 1 GiB), " +
        "or type numbers. The KV cache is what the others leave.",
    ),
    yours.node,
    planners.node,
    fields,
    make("p", { class: "pk-controls" }, show, other),
    result,
    details,
  );
  changed();
  new ResizeObserver(changed).observe(yours.bar);
}

/** @type {import("@anywidget/types").AnyWidget<Guess>} */
export default {
  render({ model, el }) {
    const rounds = model.get("rounds");
    el.classList.add("planner-guess");
    let at = 0;
    const begin = () =>
      play(el, rounds[at], () => {
        at = (at + 1) % rounds.length;
        begin();
        /** @type {HTMLElement | null} */
        const first = el.querySelector(".pg-edge");
        first?.focus();
      });
    begin();
  },
};
