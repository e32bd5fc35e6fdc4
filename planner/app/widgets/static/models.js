// The table of models that a GPU serves: chosen by kind, size and order, then opened.
// The kernel writes all texts; a press is told to it by the model's name.

import { make } from "./make.js";
import { SearchView } from "./search_view.js";
import { chooser } from "./set_ups_parts.js";

/**
 * @typedef {object} Figures of one release of a model
 * @property {string} name
 * @property {string} size
 * @property {string} format
 * @property {string} held
 * @property {string} longest
 * @property {string} speed
 * @property {string} downloads
 *
 * @typedef {Figures & { others: Figures[] }} Fit
 *
 * @typedef {object} Models
 * @property {string} note
 * @property {string} answer
 * @property {number} needs
 * @property {Fit[]} rows
 * @property {string[]} misses
 * @property {string[]} remarks
 * @property {string} gpus
 * @property {string[]} counts
 * @property {string} kind
 * @property {string[]} kinds
 * @property {string} size
 * @property {string[]} sizes
 * @property {string} order
 * @property {string[]} orders
 * @property {number} progress
 * @property {boolean} is_stale
 * @property {string} current
 *
 * @typedef {import("@anywidget/types").AnyModel<Models>} ModelsModel
 */

/** Which columns a narrow table leaves out: the last first. */
const LATER = ["", "", "", "", "ps-late", "ps-last", ""];
const SHOWN = 8;
const SHORT = [
  "Holds",
  "Longest request",
  "Tokens/s, at most",
  "Parameters",
  "Downloads",
];
/** @type {(keyof Models)[]} */
// biome-ignore format: a list of names
const DRAWN = [
  "note", "answer", "needs", "rows", "misses", "remarks", "gpus", "counts", "kind", "size",
  "order", "progress", "is_stale", "current",
];

/** @extends {SearchView<Models>} */
class ModelsView extends SearchView {
  parts() {
    const note = this.model.get("note");
    if (note) return [make("p", { class: "pl-list-note" }, note)];
    return [
      this.head(),
      ...this.table(),
      ...this.folded("What the most used others lack"),
      ...this.remarks(),
    ];
  }

  head() {
    const pairs = (/** @type {string[]} */ names) => names.map((one) => [one, one]);
    const sizes = this.model.get("sizes").map((one) => [one, `up to ${one}`]);
    const orders = this.model.get("orders").map((one) => [one, `most ${one}`]);
    const isStale = this.model.get("is_stale");
    const answer = isStale ? "For an earlier plan" : this.model.get("answer");
    return make(
      "div",
      { class: "ps-head" },
      make("p", { class: "ps-answer", role: "status" }, answer),
      chooser(this.model, "gpus", "GPUs", pairs(this.model.get("counts"))),
      chooser(this.model, "kind", "For", [
        ["", "anything"],
        ...pairs(this.model.get("kinds")),
      ]),
      chooser(this.model, "size", "Size", [["", "any"], ...sizes]),
      chooser(this.model, "order", "First", orders),
      ...this.progress("Models searched"),
    );
  }

  table() {
    const rows = this.model.get("rows");
    if (!rows.length) return [];
    const few = this.isWhole ? rows : rows.slice(0, SHOWN);
    const titles = [
      "Model",
      `Holds (needs ${this.model.get("needs")})`,
      "Longest request",
      "Tokens per second, at most",
      "Parameters",
      "Downloads",
      "Actions",
    ];
    const head = titles.map((title, at) =>
      make("th", { scope: "col", class: LATER[at] }, title),
    );
    const table = make(
      "table",
      { class: "ps-table" },
      make("caption", {}, "Models that the GPUs serve"),
      make("thead", {}, make("tr", {}, ...head)),
      make("tbody", {}, ...few.flatMap((row) => this.rowsOf(row))),
    );
    if (rows.length <= SHOWN) return [table];
    return [table, this.more(`Show ${rows.length}`)];
  }

  /** @param {Fit} row */
  rowsOf(row) {
    const isOpen = this.opened.has(row.name);
    const heading = make("th", { scope: "row" }, row.name);
    heading.append(make("span", { class: "ps-layout" }, row.format));
    const count = row.others.length;
    if (count) heading.append(this.opener(row.name, "formats", count, row.name));
    const others = isOpen ? row.others : [];
    return [
      this.line(row, heading),
      ...others.map((other) => {
        const name = make("th", { scope: "row", class: "ps-other" }, other.name);
        name.append(make("span", { class: "ps-layout" }, other.format));
        return this.line(other, name);
      }),
    ];
  }

  /**
   * @param {Figures} one
   * @param {HTMLElement} heading
   */
  line(one, heading) {
    const texts = [one.held, one.longest, one.speed, one.size, one.downloads];
    const cells = texts.map((text, at) =>
      make("td", { "data-label": SHORT[at], class: LATER[at + 1] }, text),
    );
    const isCurrent = this.model.get("current") === one.name;
    const label = isCurrent ? "On screen" : "Open";
    const open = this.button(
      `apply ${one.name}`,
      label,
      { apply: one.name },
      { "aria-label": `${label}: ${one.name}` },
    );
    open.disabled = isCurrent || this.model.get("is_stale");
    return make(
      "tr",
      { class: isCurrent ? "is-current" : "" },
      heading,
      ...cells,
      make("td", { class: "ps-buttons" }, open),
    );
  }
}

/** @type {import("@anywidget/types").AnyWidget<Models>} */
export default {
  render({ model, el }) {
    el.classList.add("pl-list", "ps-root", "ps-models");
    const view = new ModelsView(model, el);
    const refresh = () => view.refresh();
    for (const name of DRAWN) model.on(`change:${name}`, refresh);
    view.draw();
    return () => {
      view.isRemoved = true;
      for (const name of DRAWN) model.off(`change:${name}`, refresh);
    };
  },
};
