// The box that names a model: a combobox with a list (WAI-ARIA's pattern "editable
// combobox with list autocomplete"). Bundled models are searched here, the Hub's there.

import { newId, setAttribute, setText } from "./change.js";
import { make } from "./make.js";
import { ranked } from "./ranking.js";

const MOST_SHOWN = 60;
const LEAST_TYPED = 3;
const PAUSE_MS = 300;
/** @type {import("./controls_store.js").Hub & { text: string }} */
const NOT_ASKED = { text: "", rows: [], remark: "" };
const COMBOBOX = {
  role: "combobox",
  "aria-autocomplete": "list",
  "aria-expanded": "false",
  autocomplete: "off",
  autocapitalize: "off",
  spellcheck: "false",
  enterkeyhint: "go",
  placeholder: "owner/name",
};

/** @typedef {[name: string, size: string, kind: string]} ModelRow */

export class ModelBox {
  /**
   * @param {import("./controls_store.js").Store} store
   * @param {HTMLInputElement} input
   * @param {string} name the field's
   */
  constructor(store, input, name) {
    this.store = store;
    this.name = name;
    this.input = input;
    /** @type {HTMLElement[]} */
    this.options = [];
    this.active = -1;
    this.isTyped = false;
    this.hub = NOT_ASKED;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.list = make("div", {
      id: newId(),
      role: "listbox",
      class: "pc-list",
      "aria-label": "Models",
      hidden: true,
    });
    this.count = make("p", { class: "pc-unseen", role: "status" });
    const attributes = { ...COMBOBOX, "aria-controls": this.list.id };
    for (const [key, value] of Object.entries(attributes))
      input.setAttribute(key, value);
    this.node = make("div", { class: "pc-combo" }, input, this.list, this.count);
    this.attend();
  }

  get state() {
    return this.store.fields[this.name];
  }

  /**
   * The bundled models; a draft is chosen from the same list as the model.
   *
   * @returns {readonly ModelRow[]}
   */
  get rows() {
    return this.state.rows ?? this.store.fields.model.rows ?? [];
  }

  attend() {
    const { input, list } = this;
    input.addEventListener("input", () => this.typed());
    input.addEventListener("click", () => {
      if (list.hidden) this.open("");
    });
    input.addEventListener("focus", () => input.select());
    input.addEventListener("blur", () => this.left());
    input.addEventListener("keydown", (event) => this.pressed(event));
    input.addEventListener("paste", (event) => this.pasted(event));
    // Focus stays in the entry while an option is pressed.
    list.addEventListener("pointerdown", (event) => event.preventDefault());
    list.addEventListener("click", ({ target }) => {
      if (!(target instanceof Element)) return;
      /** @type {HTMLElement | null} */
      const option = target.closest("[role=option]");
      if (option) this.choose(nameOf(option));
    });
  }

  // More than a name goes to the box for texts, with its lines.
  /** @param {ClipboardEvent} event */
  pasted(event) {
    const text = event.clipboardData?.getData("text") ?? "";
    /** @type {HTMLTextAreaElement | null | undefined} */
    const box = this.input
      .closest(".planner-explorer")
      ?.querySelector(".pl-paste-text");
    if (!box || !/\S\s+\S/.test(text)) return;
    event.preventDefault();
    this.restore();
    box.focus();
    box.value = text;
    box.dispatchEvent(new InputEvent("input", { inputType: "insertFromPaste" }));
  }

  typed() {
    this.isTyped = true;
    this.open(this.input.value);
    clearTimeout(this.timer);
    const text = this.input.value.trim();
    if (text.length < LEAST_TYPED || !this.store.fields.model.hub) return;
    this.timer = setTimeout(() => this.store.model.send({ find: text }), PAUSE_MS);
  }

  /**
   * @param {string} text
   * @param {import("./controls_store.js").Hub} hub
   */
  found(text, hub) {
    if (this.list.hidden || text !== this.input.value.trim()) return;
    this.hub = { text, ...hub };
    this.fill(this.input.value);
  }

  /** @param {string} text */
  open(text) {
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.fill(text);
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.move(-1);
    setText(this.count, "");
  }

  /** @param {string} text */
  fill(text) {
    const kept = this.options[this.active]?.dataset.name;
    const found = ranked(text.trim(), this.rows);
    const names = new Set(found.map((row) => row[0]));
    const isOfText = this.hub.text && this.hub.text === text.trim();
    const hub = isOfText ? this.hub : NOT_ASKED;
    const elsewhere = hub.rows.filter(([name]) => !names.has(name));
    this.list.replaceChildren();
    if (found.length) {
      this.section("Bundled: planned offline", found.slice(0, MOST_SHOWN));
    }
    if (found.length > MOST_SHOWN) {
      this.remark(`${found.length - MOST_SHOWN} more: type to narrow`);
    }
    if (elsewhere.length) this.section("On the Hugging Face Hub", elsewhere, true);
    if (hub.remark) this.remark(hub.remark);
    if (!found.length && !elsewhere.length) {
      this.remark("No bundled model of this name. Enter takes it as a Hub id.");
    }
    /** @type {NodeListOf<HTMLElement>} */
    const options = this.list.querySelectorAll("[role=option]");
    this.options = [...options];
    this.move(this.options.findIndex((option) => option.dataset.name === kept));
    const count = found.length + elsewhere.length;
    setText(this.count, `${count} ${count === 1 ? "model" : "models"}`);
  }

  /**
   * @param {string} title
   * @param {readonly [string, string, string][]} rows
   * @param {boolean} isHub whether the last of a row is what it is a release of
   */
  section(title, rows, isHub = false) {
    const group = make("div", { role: "group", "aria-label": title }, heading(title));
    let above = "";
    for (const [name, size, more] of rows) {
      const of = isHub ? more : "";
      // Of a model that is not among the Hub's, as it is bundled, there is its name.
      if (of && of !== above) group.append(heading(`Releases of ${of}`));
      above = of || name;
      const option = make(
        "div",
        { role: "option", id: newId(), "aria-selected": "false", "data-name": name },
        make("span", { class: "pc-option-name" }, name),
      );
      const facts = (isHub ? [size] : [size, more]).filter(Boolean).join(", ");
      if (facts) option.append(" ", make("span", { class: "pc-option-facts" }, facts));
      if (name === this.state.v) option.classList.add("is-chosen");
      if (of) option.classList.add("is-release");
      group.append(option);
    }
    this.list.append(group);
  }

  /** @param {string} text */
  remark(text) {
    this.list.append(heading(text));
  }

  /** @param {number} place */
  move(place) {
    this.options[this.active]?.setAttribute("aria-selected", "false");
    this.active = place;
    const option = this.options[place];
    const isSeen = option && !this.list.hidden;
    setAttribute(this.input, "aria-activedescendant", isSeen ? option.id : null);
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
  }

  /** @param {number} by */
  step(by) {
    if (this.list.hidden) this.open(this.isTyped ? this.input.value : "");
    const { length } = this.options;
    if (!length) return;
    if (this.active < 0) this.move(by > 0 ? 0 : length - 1);
    else this.move((this.active + by + length) % length);
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    /** @type {Record<string, () => void>} */
    const actions = {
      ArrowDown: () => this.step(1),
      ArrowUp: () => this.step(-1),
      Enter: () => this.enter(),
      Escape: () => this.escape(event),
    };
    const action = actions[event.key];
    if (!action || event.isComposing) return;
    if (event.key !== "Escape") event.preventDefault();
    action();
  }

  enter() {
    const option = this.options[this.active];
    if (option && !this.list.hidden) return this.choose(nameOf(option));
    const text = this.input.value.trim();
    // A whole name or a path counts as typed; of a part of a name, the first hit does.
    const isName = /[\\/]|^[~.]/.test(text) || !text;
    const isFilled = !this.list.hidden && this.options.length > 0;
    const first = isFilled ? nameOf(this.options[0]) : ranked(text, this.rows)[0]?.[0];
    this.choose((isName ? undefined : first) ?? text);
  }

  /** @param {Event} event */
  escape(event) {
    if (this.list.hidden && !this.isTyped) return;
    event.stopPropagation();
    if (this.list.hidden) this.restore();
    else this.close();
  }

  // A whole name counts when the box is left; a part of one does not.
  left() {
    this.close();
    if (!this.isTyped) return;
    const text = this.input.value.trim();
    if (text.includes("/")) this.choose(text);
    else this.restore();
  }

  restore() {
    this.isTyped = false;
    this.input.value = this.state.v ?? "";
  }

  /** @param {string} name */
  choose(name) {
    clearTimeout(this.timer);
    this.isTyped = false;
    this.input.value = name;
    this.close();
    this.store.set(this.name, name);
  }

  show() {
    if (!this.isTyped) this.input.value = this.state.v ?? "";
  }
}

/** @param {string} text */
const heading = (text) =>
  make("div", { class: "pc-list-title", role: "presentation" }, text);

/** @param {HTMLElement} option */
const nameOf = (option) => option.dataset.name ?? "";
