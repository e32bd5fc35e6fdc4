// What the tables of set-ups and of models share: both are drawn anew while the kernel
// searches, and keep the focus and what is being typed.

import { make } from "./make.js";

/**
 * @typedef {object} Searched
 * @property {string[]} misses
 * @property {string[]} remarks
 * @property {number} progress
 * @property {boolean} is_stale
 */

/** @template {Searched} State */
export class SearchView {
  /**
   * @param {import("@anywidget/types").AnyModel<State>} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.el = el;
    this.isWhole = false;
    /** @type {Set<string>} rows of which all variants are shown */
    this.opened = new Set();
    this.isWaiting = false;
    this.isRemoved = false;
  }

  /** Draws once, however many traits have changed together. */
  refresh() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    queueMicrotask(() => {
      this.isWaiting = false;
      if (!this.isRemoved) this.draw();
    });
  }

  /** @returns {Node[]} what is shown */
  parts() {
    return [];
  }

  /** Writes everything anew; the focus and what is being typed stay. */
  draw() {
    const active = document.activeElement;
    const press = this.el.contains(active) && active?.getAttribute("data-press");
    const typed = active instanceof HTMLInputElement ? active.value : null;
    const isOpen = this.el.querySelector("details")?.open;
    this.el.classList.toggle("is-stale", this.model.get("is_stale"));
    this.el.setAttribute("aria-busy", String(this.model.get("progress") < 1));
    this.el.replaceChildren(...this.parts());
    const details = this.el.querySelector("details");
    if (details) details.open = Boolean(isOpen);
    if (!press) return;
    /** @type {HTMLElement | null} */
    const same = this.el.querySelector(`[data-press="${press}"]`);
    if (same instanceof HTMLInputElement && typed !== null) same.value = typed;
    same?.focus();
  }

  /**
   * @param {string} press what it is, for the focus to find it again
   * @param {string} label
   * @param {object} said what the kernel is told
   * @param {Record<string, string>} [attributes]
   */
  button(press, label, said, attributes = {}) {
    const node = make(
      "button",
      { type: "button", class: "pl-action", "data-press": press, ...attributes },
      label,
    );
    node.addEventListener("click", () => this.model.send(said));
    return node;
  }

  /**
   * Makes a button that opens and closes something here, without the kernel.
   *
   * @param {string} press
   * @param {string} label
   * @param {boolean} isOpen
   * @param {() => void} turn
   * @param {Record<string, string>} attributes
   */
  turner(press, label, isOpen, turn, attributes) {
    const node = make(
      "button",
      {
        type: "button",
        "data-press": press,
        "aria-expanded": String(isOpen),
        ...attributes,
      },
      label,
    );
    node.addEventListener("click", () => {
      turn();
      this.draw();
    });
    return node;
  }

  /**
   * Makes the button below the first rows that shows all of them.
   *
   * @param {string} label
   */
  more(label) {
    const turn = () => {
      this.isWhole = !this.isWhole;
    };
    const words = this.isWhole ? "Show fewer" : label;
    return this.turner("more", words, this.isWhole, turn, {
      class: "pl-action pl-more",
    });
  }

  /**
   * Makes the button in a row that shows its variants.
   *
   * @param {string} name of the row
   * @param {string} plural
   * @param {number} count
   * @param {string} place what the row is called
   */
  opener(name, plural, count, place) {
    const isOpen = this.opened.has(name);
    const words = count > 1 ? plural : plural.slice(0, -1);
    const label = isOpen ? `fewer ${plural}` : `+${count} ${words}`;
    const turn = () => {
      if (isOpen) this.opened.delete(name);
      else this.opened.add(name);
    };
    return this.turner(`${plural} ${name}`, label, isOpen, turn, {
      class: "ps-opener",
      "aria-label": `${label} on ${place}`,
    });
  }

  /** @param {string} label */
  progress(label) {
    const done = this.model.get("progress");
    if (done >= 1) return [];
    const value = Math.round(100 * done);
    return [
      make(
        "span",
        { class: "ps-progress" },
        make("progress", { max: 100, value, "aria-label": label }),
        this.button("cancel", "Cancel", { cancel: true }),
      ),
    ];
  }

  /** @param {string} summary */
  folded(summary) {
    const misses = this.model.get("misses");
    if (!misses.length) return [];
    const items = misses.map((/** @type {string} */ text) => make("li", {}, text));
    const list = make("ul", { class: "pl-remarks" }, ...items);
    return [make("details", {}, make("summary", {}, summary), list)];
  }

  remarks() {
    const remarks = this.model.get("remarks");
    const items = remarks.map((/** @type {string} */ text) => make("li", {}, text));
    return items.length ? [make("ul", { class: "pl-remarks" }, ...items)] : [];
  }
}
