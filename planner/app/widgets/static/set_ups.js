// The table of set-ups that serve a load: sorted, priced, applied. The kernel writes all
// texts; a press is told to it by the row's key, a price by the GPU's name.

import { make } from "./make.js";
import { SearchView } from "./search_view.js";
import { chooser, keep, keepPrice, kept } from "./set_ups_parts.js";

/**
 * @typedef {object} Figures what differs between layouts on the same GPUs
 * @property {string} key
 * @property {string} layout
 * @property {string} held
 * @property {[string, string]} speed the forecast and its range, or what bounds it
 * @property {[string, string]} user
 * @property {[string, string]} first
 * @property {string} cost
 *
 * @typedef {object} GPUs
 * @property {string} gpu
 * @property {string} gpus
 * @property {string} format of weights and KV cache; empty: as given
 * @property {string} answers what it may cost in answers
 * @property {string} price of all for an hour
 * @property {string} each price of one
 * @property {string} source
 * @property {boolean} own
 * @property {Figures[]} others
 *
 * @typedef {Figures & GPUs} SetUp
 *
 * @typedef {object} Table
 * @property {string} note
 * @property {string} answer
 * @property {number} needs
 * @property {SetUp[]} rows
 * @property {string[]} misses
 * @property {string[]} remarks
 * @property {string} order
 * @property {string} most
 * @property {number} best how many of the first rows no other beats
 * @property {string} quality what formats may cost in answers
 * @property {string} currency
 * @property {string} rate what one unit of the list's currency is in it
 * @property {string} listed_in the list's currency
 * @property {number} progress
 * @property {boolean} is_stale
 * @property {boolean} is_kept_by_page
 * @property {string} current key of the plan on the screen
 * @property {string} mapped
 *
 * @typedef {import("@anywidget/types").AnyModel<Table>} TableModel
 */

/** Which columns a narrow table leaves out: the last first. */
const LATER = ["", "", "", "", "ps-late", "ps-last", "ps-last", ""];
const SHOWN = 5;
/** Rows that no other beats are shown, up to so many. */
const MOST_SHOWN = 10;
/** What a figure is called where it stands alone, in a narrow page. */
const SHORT = ["Holds", "Tokens/s", "Of one user", "First token", "Per million"];
/** @type {(keyof Table)[]} */
// biome-ignore format: a list of names
const DRAWN = [
  "note", "answer", "needs", "rows", "misses", "remarks", "order", "most", "currency",
  "progress", "is_stale", "current", "mapped", "best", "quality", "rate",
];
const ORDERS = [
  ["fewest", "Fewest GPUs"],
  ["cheapest", "Cheapest"],
  ["fastest", "Fastest"],
];
const QUALITIES = [
  ["no loss", "as given"],
  ["little loss", "8 bits too: little loss"],
  ["try your prompts first", "4 bits too: try your prompts first"],
];

/** @extends {SearchView<Table>} */
class TableView extends SearchView {
  parts() {
    const note = this.model.get("note");
    if (note) return [make("p", { class: "pl-list-note" }, note), ...this.remarks()];
    return [
      this.head(),
      ...this.table(),
      ...this.folded("What the nearest others lack"),
      ...this.money(),
      ...this.remarks(),
    ];
  }

  head() {
    const chosen = this.model.get("order");
    const orders = ORDERS.map(([order, label]) =>
      this.button(
        `order ${order}`,
        label,
        { order },
        {
          "aria-pressed": String(order === chosen),
        },
      ),
    );
    const counts = ["8", "16", "32"].map((count) => [count, `up to ${count}`]);
    return make(
      "div",
      { class: "ps-head" },
      make("p", { class: "ps-answer", role: "status" }, this.answer()),
      make(
        "div",
        { class: "ps-orders", role: "group", "aria-label": "First" },
        ...orders,
      ),
      chooser(this.model, "most", "GPUs", counts),
      chooser(this.model, "quality", "Formats", QUALITIES),
      ...this.progress("GPUs searched"),
    );
  }

  answer() {
    if (this.model.get("is_stale")) return "For an earlier plan";
    return this.model.get("answer");
  }

  table() {
    const rows = this.model.get("rows");
    if (!rows.length) return [];
    const best = Math.min(this.model.get("best"), MOST_SHOWN);
    const most = Math.max(SHOWN, best);
    const few = this.isWhole ? rows : rows.slice(0, most);
    const titles = this.titles();
    const head = titles.map((title, at) =>
      make("th", { scope: "col", class: LATER[at] }, title),
    );
    const body = few.flatMap((row) => this.rowsOf(row, titles));
    const table = make(
      "table",
      { class: "ps-table" },
      make("caption", {}, "Set-ups that serve the load"),
      make("thead", {}, make("tr", {}, ...head)),
      make("tbody", {}, ...body),
    );
    if (rows.length <= most) return [table];
    return [table, this.more(`Show all ${rows.length}`)];
  }

  titles() {
    const currency = this.model.get("currency");
    return [
      "GPUs",
      `${currency} per hour`.trim(),
      `Holds (needs ${this.model.get("needs")})`,
      "Tokens per second",
      "Of one user",
      "First token",
      "Per million answer tokens, at least",
      "Actions",
    ];
  }

  /** @param {SetUp} row @param {string[]} titles */
  rowsOf(row, titles) {
    const isOpen = this.opened.has(named(row));
    const heading = make("th", { scope: "row" }, row.gpus);
    if (row.layout) heading.append(make("span", { class: "ps-layout" }, row.layout));
    if (row.others.length)
      heading.append(this.opener(named(row), "layouts", row.others.length, row.gpus));
    if (row.format) {
      const answers = make("b", {}, row.answers);
      heading.append(make("span", { class: "ps-format" }, `${row.format}: `, answers));
    }
    const first = this.line(row, row, heading, this.price(row, titles[1]));
    if (!isOpen) return [first];
    const others = row.others.map((other) =>
      this.line(
        other,
        row,
        make("th", { scope: "row", class: "ps-other" }, other.layout || "one GPU"),
        make("td", { "data-label": titles[1] }, row.price),
      ),
    );
    return [first, ...others];
  }

  /**
   * @param {Figures} own
   * @param {SetUp} row
   * @param {HTMLElement} heading
   * @param {HTMLElement} price
   */
  line(own, row, heading, price) {
    const texts = [own.held, own.speed, own.user, own.first, own.cost];
    const cells = texts.map((text, at) =>
      make("td", { "data-label": SHORT[at], class: LATER[at + 2] }, ...spoken(text)),
    );
    const name = [row.gpus, own.layout, row.format].filter(Boolean).join(" ");
    const isMapped = this.model.get("mapped") === own.key;
    const isCurrent = this.model.get("current") === own.key;
    const apply = this.button(
      `apply ${own.key}`,
      isCurrent ? "On screen" : "Apply",
      { apply: own.key },
      { "aria-label": `${isCurrent ? "On screen" : "Apply"}: ${name}` },
    );
    apply.disabled = isCurrent || this.model.get("is_stale");
    const map = this.button(
      `map ${own.key}`,
      "Map",
      { map: own.key },
      {
        "aria-label": `Map of loads: ${name}`,
        "aria-pressed": String(isMapped),
        title: "Which prompt lengths and how many users it serves",
      },
    );
    return make(
      "tr",
      { class: isCurrent ? "is-current" : "" },
      heading,
      price,
      ...cells,
      make("td", { class: "ps-buttons" }, apply, map),
    );
  }

  /** @param {SetUp} row @param {string} title */
  price(row, title) {
    const entry = make("input", {
      type: "text",
      inputmode: "decimal",
      size: 5,
      maxlength: 12,
      value: row.each,
      placeholder: "price",
      "data-press": `price ${named(row)}`,
      "aria-label": `Price of one ${row.gpu} for an hour`,
      title: row.source || "no price is known: type yours",
      class: row.own ? "is-own" : "",
    });
    let told = row.each;
    const tell = () => {
      if (entry.value === told) return;
      told = entry.value;
      if (this.model.get("is_kept_by_page")) keepPrice(row.gpu, entry.value);
      this.model.send({ price: entry.value, gpu: row.gpu });
    };
    entry.addEventListener("change", tell);
    // What was typed before the rows were drawn anew is no change to the browser.
    entry.addEventListener("keydown", ({ key }) => {
      if (key === "Enter") tell();
    });
    const total = make("span", { class: "ps-total" }, row.price || "no price");
    const each = make("span", { class: "ps-each" }, entry, " each");
    return make("td", { "data-label": title }, total, each);
  }

  /** The user's currency, and what the list's is in it. */
  money() {
    if (!this.model.get("rows").length) return [];
    const word = make("input", {
      type: "text",
      maxlength: 8,
      value: this.model.get("currency"),
      "data-press": "currency",
      "aria-label": "Currency of prices",
    });
    const rate = make("input", {
      type: "text",
      inputmode: "decimal",
      maxlength: 12,
      value: this.model.get("rate"),
      "data-press": "rate",
      "aria-label": `One ${this.model.get("listed_in")} in it`,
    });
    const tell = () => {
      const said = { currency: word.value, rate: rate.value };
      if (this.model.get("is_kept_by_page")) keep("money", said);
      this.model.send(said);
    };
    // A currency alone says nothing: its rate comes next.
    rate.addEventListener("change", tell);
    const line = make(
      "p",
      { class: "ps-money" },
      "Prices in ",
      word,
      `, one ${this.model.get("listed_in")} is `,
      rate,
    );
    return [line];
  }
}

/** @param {string | [string, string]} figure with its range, if it has one */
function spoken(figure) {
  if (typeof figure === "string") return [figure];
  const [value, range] = figure;
  return [value, make("span", { class: "ps-range" }, range)];
}

/** @param {SetUp} row */
function named(row) {
  return [row.gpu, row.format].filter(Boolean).join(" ");
}

/** @type {import("@anywidget/types").AnyWidget<Table>} */
export default {
  render({ model, el }) {
    el.classList.add("pl-list", "ps-root");
    const view = new TableView(model, el);
    const refresh = () => view.refresh();
    const hand = () => {
      if (!model.get("is_kept_by_page")) return;
      const [prices, money] = [kept("prices"), kept("money")];
      if (Object.keys(money).length) model.send(money);
      if (Object.keys(prices).length) model.send({ prices });
    };
    for (const name of DRAWN) model.on(`change:${name}`, refresh);
    model.on("change:is_kept_by_page", hand);
    view.draw();
    hand();
    return () => {
      view.isRemoved = true;
      for (const name of DRAWN) model.off(`change:${name}`, refresh);
      model.off("change:is_kept_by_page", hand);
    };
  },
};
