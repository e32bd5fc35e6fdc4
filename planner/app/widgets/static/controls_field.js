// One field: its name, a short hint, the control, what is wrong, and what it means.

import { newId, setAttribute, setText } from "./change.js";
import { ModelBox } from "./controls_model.js";
import { make } from "./make.js";
import { decimalNumber, grouped, nearest, spoken, wholeNumber } from "./numbers.js";

const CHOICE = "vLLM's choice";

/**
 * Returns where a slider stands for a text; the kernel alone decides what it means.
 *
 * @param {string} [text]
 */
function numberOf(text = "") {
  const typed = text.trim();
  const number = wholeNumber(typed) ?? decimalNumber(typed);
  return number !== null && number >= 0 ? number : null;
}

export class FieldView {
  /**
   * @param {import("./controls_store.js").Store} store
   * @param {string} name
   */
  constructor(store, name) {
    this.store = store;
    this.name = name;
    this.ids = { control: newId(), say: newId(), help: newId(), mark: newId() };
    this.isTyped = false;
    /** @type {HTMLElement | null} What is wrong, made anew for each error. */
    this.alert = null;
    /** @type {HTMLInputElement | null} */
    this.slider = null;
    /** @type {ModelBox | null} */
    this.box = null;
    /** @type {HTMLElement | null} */
    this.reading = null;
    /** @type {readonly unknown[] | undefined} The options that the list has. */
    this.listed = undefined;
    const label = this.state.label ?? name;
    const { ids } = this;
    this.help = make(
      "button",
      {
        type: "button",
        class: "pc-help",
        "aria-expanded": "false",
        "aria-controls": ids.help,
        "aria-label": `What is ${label}?`,
      },
      "?",
    );
    this.reset = make(
      "button",
      {
        type: "button",
        class: "pc-reset",
        "aria-label": `Reset ${label} to ${CHOICE}`,
      },
      "Reset",
    );
    this.mark = make("span", { id: ids.mark, class: "pc-mark", hidden: true });
    this.own = make("span", { class: "pc-own" }, CHOICE);
    this.hint = make("p", { class: "pc-hint" });
    this.say = make("div", { id: ids.say, class: "pc-say" }, this.hint);
    this.text = make("div", { id: ids.help, class: "pc-meaning", hidden: true });
    this.row = make("div", { class: "pc-row" });
    this.node = make(
      "div",
      { class: `pc-field pc-${this.state.kind}`, "data-name": name },
      make(
        "div",
        { class: "pc-head" },
        make("label", { for: ids.control, class: "pl-name" }, label),
        this.help,
        this.mark,
        this.own,
        this.reset,
      ),
      this.row,
      this.say,
      this.text,
    );
    this.control = this.makeControl(label);
    this.control.id = ids.control;
    this.help.addEventListener("click", () => this.explain());
    this.reset.addEventListener("click", () => this.takeBack());
    this.node.addEventListener("keydown", (event) => this.escaped(event));
    this.refresh();
  }

  get state() {
    return this.store.fields[this.name];
  }

  /** @param {string} label */
  makeControl(label) {
    const { kind } = this.state;
    if (kind === "choice") return this.makeSelect();
    if (kind === "model") return this.makeBox();
    if (kind === "json") return this.makeEntry("textarea", { rows: 2 });
    const entry = this.makeEntry("input", {
      type: "text",
      autocomplete: "off",
      autocapitalize: "off",
      enterkeyhint: "go",
    });
    // JupyterLab keeps Enter from becoming a change.
    entry.addEventListener("keydown", ({ key }) => {
      if (key === "Enter") this.sendTyped(entry.value);
    });
    if (this.state.steps) this.addSlider(label, entry);
    return entry;
  }

  makeSelect() {
    const select = make("select", { class: "pc-select" });
    select.addEventListener("change", () => this.store.set(this.name, select.value));
    this.row.append(select);
    return select;
  }

  makeBox() {
    const input = make("input", { type: "text", class: "pc-entry" });
    this.box = new ModelBox(this.store, input, this.name);
    this.reading = make("p", { class: "pc-reading", role: "status" });
    this.row.append(this.box.node, this.reading);
    return input;
  }

  /**
   * @template {"input" | "textarea"} Tag
   * @param {Tag} tag
   * @param {Record<string, string | number>} attributes
   */
  makeEntry(tag, attributes) {
    const entry = make(tag, { class: "pc-entry", spellcheck: "false", ...attributes });
    entry.addEventListener("input", () => {
      this.isTyped = true;
    });
    entry.addEventListener("change", () => this.sendTyped(entry.value));
    this.row.append(entry);
    return entry;
  }

  /**
   * @param {string} label
   * @param {HTMLInputElement} entry
   */
  addSlider(label, entry) {
    const slider = make("input", {
      type: "range",
      class: "pc-range",
      min: 0,
      step: 1,
      "aria-label": label,
      "aria-describedby": this.ids.say,
    });
    slider.addEventListener("input", () => {
      const step = this.state.steps?.[Number(slider.value)];
      if (step === undefined) return;
      entry.value = String(step);
      slider.setAttribute("aria-valuetext", spoken(step));
      this.send(step);
    });
    this.row.prepend(slider);
    this.slider = slider;
  }

  /** @param {string} text */
  sendTyped(text) {
    if (this.isTyped) this.send(text);
  }

  /** @param {string | number} value */
  send(value) {
    this.isTyped = false;
    this.store.set(this.name, value);
  }

  takeBack() {
    this.control.value = "";
    this.send("");
    this.control.focus();
  }

  refresh() {
    const { state } = this;
    this.node.classList.toggle("is-set", Boolean(state.set));
    this.own.hidden = Boolean(state.set || state.plain);
    this.reset.hidden = !state.set || Boolean(state.plain);
    this.mark.hidden = !state.mark;
    const { mark, say } = this.ids;
    setAttribute(this.control, "aria-describedby", state.mark ? `${mark} ${say}` : say);
    setText(this.mark, state.mark ?? "");
    const since = state.since && `came with vLLM ${state.since}`;
    setText(this.hint, since || (state.hint ?? ""));
    this.node.classList.toggle("is-later", Boolean(state.since));
    this.showError(state.e ?? "");
    this.showValue();
    if (this.reading) {
      setText(this.reading, state.reading ? `Reading ${state.reading} …` : "");
    }
  }

  /** @param {string} message */
  showError(message) {
    setAttribute(this.control, "aria-invalid", message ? "true" : null);
    this.node.classList.toggle("is-wrong", Boolean(message));
    this.hint.hidden = Boolean(message);
    if (!message) {
      this.alert?.remove();
      this.alert = null;
    } else if (!this.alert) {
      // Made anew for each error: that is when a screen reader speaks it, once.
      this.alert = make("p", { class: "pc-error", role: "alert" }, message);
      this.say.append(this.alert);
    } else {
      setText(this.alert, message);
    }
  }

  showValue() {
    if (this.store.isPending(this.name)) return;
    const { control, state } = this;
    if (this.box) this.box.show();
    else if (control instanceof HTMLSelectElement) this.showOptions(control);
    else {
      if (!this.isTyped) control.value = state.v ?? "";
      setAttribute(control, "placeholder", grouped(state.c ?? "") || null);
      if (this.slider) this.showSlider(this.slider);
    }
  }

  /** @param {HTMLSelectElement} select */
  showOptions(select) {
    const { options = [], v, c } = this.state;
    if (this.listed !== options) {
      this.listed = options;
      const made = options.map(([value, label]) => make("option", { value }, label));
      select.replaceChildren(...made);
    }
    const [key, label] = options[0];
    if (key === "") setText(select.options[0], c ? `${label}: ${c}` : label);
    select.value = v ?? "";
  }

  /** @param {HTMLInputElement} slider */
  showSlider(slider) {
    const { steps = [], v, c } = this.state;
    const number = numberOf(v) ?? numberOf(c);
    setAttribute(slider, "max", steps.length - 1);
    if (number !== null) slider.value = String(nearest(steps, number));
    const text = number === null ? v || CHOICE : spoken(number);
    setAttribute(slider, "aria-valuetext", v ? text : `${text}, ${CHOICE}`);
  }

  explain() {
    if (this.text.hidden) this.store.explain(this.name);
    else this.closeText();
  }

  /** @param {string} text */
  explained(text) {
    setText(this.text, text || "Nothing is written about this yet.");
    this.text.hidden = false;
    this.help.setAttribute("aria-expanded", "true");
  }

  closeText() {
    this.text.hidden = true;
    this.help.setAttribute("aria-expanded", "false");
  }

  /** @param {KeyboardEvent} event */
  escaped(event) {
    if (event.key !== "Escape" || this.text.hidden) return;
    event.stopPropagation();
    this.closeText();
    this.help.focus();
  }
}
