// A list of rows with buttons; a press is told to the kernel by the row's key.

import { make } from "./make.js";

/**
 * @typedef {{ name: string, label: string }} Action
 *
 * @typedef {object} Row
 * @property {string} key
 * @property {string} title
 * @property {string} [group] heading of the rows from this one on
 * @property {string} [rule] what the rows of the group have in common
 * @property {string} [gain]
 * @property {string} [code]
 * @property {string} [detail]
 * @property {string} [tone]
 * @property {Action[]} [actions]
 *
 * @typedef {object} Listed
 * @property {string} heading
 * @property {string} note
 * @property {Row[]} rows
 * @property {string[]} remarks
 * @property {number} shown how many rows there are at first
 * @property {boolean} is_busy
 *
 * @typedef {import("@anywidget/types").AnyModel<Listed>} ListModel
 */

/** @type {(keyof Listed)[]} */
const DRAWN = ["rows", "note", "heading", "shown", "remarks"];

/**
 * @param {string} press what it is, for the focus to find it again
 * @param {string} label
 * @param {Record<string, string>} [attributes]
 */
const button = (press, label, attributes = {}) =>
  make(
    "button",
    { type: "button", class: "pl-action", "data-press": press, ...attributes },
    label,
  );

/**
 * @param {ListModel} model
 * @param {Row} row
 * @param {Action} action
 */
function actionButton(model, row, { name, label }) {
  const node = button(`${name} ${row.key}`, label, {
    "aria-label": `${label}: ${row.title}`,
  });
  node.addEventListener("click", () => model.send({ press: name, row: row.key }));
  return node;
}

/**
 * @param {ListModel} model
 * @param {Row} row
 */
function item(model, row) {
  const said = make("div", { class: "pl-row-said" });
  said.append(make("p", { class: "pl-row-title" }, row.title));
  if (row.gain) said.append(make("p", { class: "pl-row-gain" }, row.gain));
  if (row.code) said.append(make("code", { class: "pl-row-code" }, row.code));
  if (row.detail) said.append(make("p", { class: "pl-row-detail" }, row.detail));
  const actions = (row.actions ?? []).map((one) => actionButton(model, row, one));
  const buttons = make("div", { class: "pl-row-buttons" }, ...actions);
  const tone = row.tone ? `pl-row-${row.tone}` : "";
  return make("li", { class: `pl-row ${tone}` }, said, buttons);
}

/**
 * Makes the lists of rows, each under the heading of its group, and its rule where the
 * whole list is open.
 *
 * @param {ListModel} model
 * @param {Row[]} rows
 * @param {boolean} isOpen
 */
function lists(model, rows, isOpen) {
  /** @type {Node[]} */
  const parts = [];
  /** @type {HTMLElement | undefined} */
  let list;
  rows.forEach((row, index) => {
    const isNew = !list || row.group !== rows[index - 1]?.group;
    if (isNew && row.group) {
      const rule =
        row.rule && isOpen ? [make("span", { class: "pl-group-rule" }, row.rule)] : [];
      parts.push(make("h3", { class: "pl-list-group" }, row.group, " ", ...rule));
    }
    if (!list || isNew) {
      list = make("ul", { class: "pl-rows" });
      parts.push(list);
    }
    list.append(item(model, row));
  });
  return parts;
}

/**
 * Takes the focus along when a list is written anew: to the button that opens and closes
 * it, to the one that takes back what was done, else to the heading. Never to another
 * row's button: a second press must not do something else.
 *
 * @param {HTMLElement} el
 * @param {() => void} write
 */
function keepFocus(el, write) {
  const active = document.activeElement;
  const had = el.contains(active);
  const press = active?.getAttribute("data-press");
  write();
  if (!had || el.contains(document.activeElement)) return;
  const name = press === "more" ? press : "undo undo";
  /** @type {HTMLElement | null} */
  const same = el.querySelector(`[data-press="${name}"]`);
  /** @type {HTMLElement | null} */
  const heading = el.querySelector(".pl-list-heading");
  (same ?? heading)?.focus();
}

/**
 * Makes what a list holds below its heading.
 *
 * @param {ListModel} model
 * @param {boolean} isOpen
 * @param {() => void} turn opens or closes it
 */
function body(model, isOpen, turn) {
  const rows = model.get("rows");
  const count = model.get("shown");
  const few = isOpen ? rows : rows.slice(0, count);
  const parts = [];
  if (model.get("note"))
    parts.push(make("p", { class: "pl-list-note" }, model.get("note")));
  parts.push(...lists(model, few, isOpen));
  if (rows.length > count) {
    const label = isOpen ? "Show fewer" : `Show all ${rows.length}`;
    const more = button("more", label, { "aria-expanded": String(isOpen) });
    more.classList.add("pl-more");
    more.addEventListener("click", turn);
    parts.push(more);
  }
  // What to beware of is read by who opens the whole list.
  const said = isOpen || rows.length <= count ? model.get("remarks") : [];
  const remarks = said.map((text) => make("li", {}, text));
  if (remarks.length) parts.push(make("ul", { class: "pl-remarks" }, ...remarks));
  return parts;
}

/** @type {import("@anywidget/types").AnyWidget<Listed>} */
export default {
  render({ model, el }) {
    el.classList.add("pl-list");
    let isOpen = false;
    const busy = () => el.setAttribute("aria-busy", String(model.get("is_busy")));
    const draw = () => {
      const heading = make(
        "h2",
        { class: "pl-list-heading", tabindex: -1 },
        model.get("heading"),
      );
      el.hidden = !model.get("rows").length && !model.get("note");
      busy();
      el.replaceChildren(heading, ...body(model, isOpen, turn));
    };
    const refresh = () => keepFocus(el, draw);
    const turn = () => {
      isOpen = !isOpen;
      refresh();
    };
    for (const name of DRAWN) model.on(`change:${name}`, refresh);
    model.on("change:is_busy", busy);
    draw();
    return () => {
      for (const name of DRAWN) model.off(`change:${name}`, refresh);
      model.off("change:is_busy", busy);
    };
  },
};
