// Beside the table of set-ups: lists to choose from, and the prices that the browser
// keeps.

import { make } from "./make.js";

const KEPT = "planner-";

/**
 * Makes a list of choices that shows a trait, and tells the kernel what is chosen.
 *
 * @param {{ get: (name: any) => any, send: (said: object) => void }} model
 * @param {string} name the trait, and what the kernel is told
 * @param {string} title
 * @param {string[][]} options value and label of each
 * @returns {HTMLLabelElement}
 */
export function chooser(model, name, title, options) {
  const list = make("select", { "data-press": name });
  for (const [value, label] of options) {
    list.append(make("option", { value }, label));
  }
  list.value = model.get(name);
  list.addEventListener("change", () => model.send({ [name]: list.value }));
  return make("label", { class: "ps-most" }, `${title} `, list);
}

/**
 * @param {"prices" | "money"} what
 * @returns {Record<string, any>} the prices that this browser keeps, or the currency
 */
export function kept(what) {
  try {
    return JSON.parse(localStorage.getItem(KEPT + what) ?? "{}");
  } catch {
    return {};
  }
}

/**
 * @param {"prices" | "money"} what
 * @param {object} value
 */
export function keep(what, value) {
  try {
    localStorage.setItem(KEPT + what, JSON.stringify(value));
  } catch {
    // a page that may keep nothing: it holds until it is left
  }
}

/**
 * @param {string} gpu
 * @param {string} text
 */
export function keepPrice(gpu, text) {
  const prices = kept("prices");
  const price = Number(text.trim().replace(",", "."));
  if (text.trim() && price >= 0) prices[gpu] = price;
  else delete prices[gpu];
  keep("prices", prices);
}
