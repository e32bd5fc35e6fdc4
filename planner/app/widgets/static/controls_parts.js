// What fields are made of: options below headings, ticks of a slider, buttons and steps.

import { newId } from "./change.js";
import { make } from "./make.js";
import { decimalNumber, wholeNumber } from "./numbers.js";

/**
 * Returns where a slider stands for a text; the kernel alone decides what it means.
 *
 * @param {string} [text]
 */
export function numberOf(text = "") {
  const typed = text.trim();
  const number = wholeNumber(typed) ?? decimalNumber(typed);
  return number !== null && number >= 0 ? number : null;
}

/**
 * Writes a number of tokens or a share as a tick has room for it: 16384 as 16K.
 *
 * @param {number} number
 */
const short = (number) =>
  number >= 1024 && number % 1024 === 0 ? `${number / 1024}K` : String(number);

/**
 * Returns the places of at most five round numbers, and of the last step.
 *
 * @param {readonly number[]} steps
 */
function ticksOf(steps) {
  const last = steps.length - 1;
  const count = Math.min(5, last);
  const places = Array.from({ length: count }, (_, n) =>
    Math.round((n * last) / count),
  );
  const round = places.map((at) => {
    const near = [at, at - 1, at + 1, at - 2, at + 2].filter((n) => n in steps);
    const isRound = (/** @type {number} */ n) =>
      Number.isInteger(steps[n]) ? Number.isInteger(Math.log2(steps[n])) : n % 5 === 0;
    return near.find(isRound) ?? at;
  });
  return [...new Set([...round, last])];
}

/**
 * Makes the round numbers below a slider, each at its place.
 *
 * @param {readonly number[]} steps
 */
export function ticks(steps) {
  const last = steps.length - 1;
  return ticksOf(steps).map((at) =>
    make("span", { style: `left: ${(100 * at) / last}%` }, short(steps[at])),
  );
}

/**
 * Returns a text with its addresses on the Hub as links; a name in it could be any other.
 *
 * @param {string} text
 */
export const linked = (text) =>
  text.split(/(https:\/\/huggingface\.co\/[\w./-]*\w)/).map((part, place) => {
    if (place % 2 === 0) return part;
    return make("a", { href: part, target: "_blank", rel: "noopener" }, part);
  });

/**
 * Makes the options of a list, below their headings where they have any.
 *
 * @param {readonly [string, string, string?, string?][]} options
 */
export function listed(options) {
  /** @type {Map<string, HTMLOptGroupElement>} */
  const groups = new Map();
  /** @type {(HTMLOptionElement | HTMLOptGroupElement)[]} */
  const made = [];
  for (const [value, label, heading, disabled] of options) {
    const option = make("option", { value, disabled: Boolean(disabled) }, label);
    if (!heading) {
      made.push(option);
      continue;
    }
    let group = groups.get(heading);
    if (!group) {
      group = make("optgroup", { label: heading });
      groups.set(heading, group);
      made.push(group);
    }
    group.append(option);
  }
  return made;
}

/**
 * Adds the usual values as buttons before an entry, and a step down and up around it.
 *
 * @param {import("./controls_field.js").FieldView} field
 * @param {HTMLInputElement} entry
 */
export function addSizes(field, entry) {
  const { name } = field;
  for (const value of field.state.usual ?? []) {
    const button = field.makeButton(value, String(value));
    button.setAttribute("aria-label", `${name} ${value}`);
    entry.before(button);
  }
  /** @param {number} by */
  const step = (by) => {
    const now = numberOf(entry.value) ?? numberOf(field.state.c) ?? 1;
    entry.value = String(Math.max(now + by, 1));
    field.send(entry.value);
  };
  /**
   * @param {number} by
   * @param {string} sign
   * @param {string} words
   */
  const stepButton = (by, sign, words) => {
    const label = `${words}: ${name}`;
    const attributes = { type: "button", class: "pc-step", "aria-label": label };
    const button = make("button", attributes, sign);
    button.addEventListener("click", () => step(by));
    return button;
  };
  entry.before(stepButton(-1, "−", "One fewer"));
  entry.after(stepButton(1, "+", "One more"));
}

/**
 * Offers names to choose from while one is typed.
 *
 * @param {HTMLElement} row
 * @param {HTMLInputElement} entry
 * @param {readonly string[]} names
 */
export function addKnown(row, entry, names) {
  const id = newId();
  const options = names.map((value) => make("option", { value }));
  row.append(make("datalist", { id }, ...options));
  entry.setAttribute("list", id);
}

/**
 * Lets a long name break after its underscores: vLLM's names have no spaces.
 *
 * @param {string} name
 * @returns {(string | HTMLElement)[]}
 */
export function breakable(name) {
  const words = name.split(/(?<=_)/);
  return words.flatMap((word, at) =>
    at ? [document.createElement("wbr"), word] : word,
  );
}
