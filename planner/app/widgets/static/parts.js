// Pieces of HTML that the kernel wrote, each in a place of its own that is filled again
// when it changes. What the reader opened stays open, and the focus stays where it was.

import { make } from "./make.js";

/** @type {WeakMap<Element, string>} What a place was filled with. */
const FILLED = new WeakMap();
/** @type {WeakMap<Element, Set<string | undefined>>} Keys of a place's open lines. */
const OPENED = new WeakMap();

/**
 * Returns the place of a name, made at the end where there is none.
 *
 * @param {HTMLElement} el
 * @param {string} name
 * @returns {HTMLElement}
 */
export function part(el, name) {
  /** @type {HTMLElement | null} */
  const known = el.querySelector(`:scope > [data-part="${name}"]`);
  if (known) return known;
  const node = make("div", { class: `pl-plan planner-${name}`, "data-part": name });
  el.append(node);
  return node;
}

/**
 * @param {Element | null} from
 * @returns {string | undefined}
 */
function keyOf(from) {
  /** @type {HTMLElement | null | undefined} */
  const keyed = from?.closest("[data-key]");
  return keyed?.dataset.key;
}

/** @param {Element} node @returns {NodeListOf<HTMLDetailsElement>} */
const keyedDetails = (node) => node.querySelectorAll("details[data-key]");

/**
 * @param {HTMLElement} node
 * @param {string} html
 */
export function fill(node, html) {
  if (FILLED.get(node) === html) return;
  FILLED.set(node, html);
  const opened = new Map();
  for (const one of keyedDetails(node)) opened.set(one.dataset.key, one.open);
  const active = document.activeElement;
  const focused = node.contains(active) ? keyOf(active) : undefined;
  node.innerHTML = html;
  node.hidden = !html;
  for (const one of keyedDetails(node)) {
    if (opened.has(one.dataset.key)) one.open = opened.get(one.dataset.key);
  }
  makeOpenable(node);
  if (focused === undefined) return;
  /** @type {HTMLElement | null} */
  const again = node.querySelector(`[data-key="${CSS.escape(focused)}"]`);
  /** @type {HTMLElement | null | undefined} */
  const inside = again?.querySelector("summary, button");
  (inside ?? again)?.focus();
}

/**
 * Lets a line of a table open to the row below it, which explains it.
 *
 * @param {HTMLElement} node
 */
function makeOpenable(node) {
  const keys = OPENED.get(node) ?? new Set();
  OPENED.set(node, keys);
  /** @type {NodeListOf<HTMLElement>} */
  const lines = node.querySelectorAll("tr.pl-line");
  for (const line of lines) openable(line, keys);
}

/**
 * @param {HTMLElement} line
 * @param {Set<string | undefined>} keys
 */
function openable(line, keys) {
  const below = line.nextElementSibling;
  const name = line.querySelector(".pl-line-name");
  if (!(below instanceof HTMLElement) || !name) return;
  const { key } = line.dataset;
  const button = make(
    "button",
    { type: "button", class: "pl-opens" },
    name.textContent ?? "",
  );
  name.replaceChildren(button);
  /** @param {boolean} isOpen */
  const set = (isOpen) => {
    below.hidden = !isOpen;
    line.classList.toggle("pl-is-closed", !isOpen);
    button.setAttribute("aria-expanded", String(isOpen));
  };
  set(keys.has(key));
  button.addEventListener("click", () => {
    const isOpen = Boolean(below.hidden);
    set(isOpen);
    keys[isOpen ? "add" : "delete"](key);
  });
}
