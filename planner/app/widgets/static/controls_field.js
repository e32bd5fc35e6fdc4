// One field: its name, a short hint, the control, what is wrong, and what it means.

import { newId, setAttribute, setText } from "./change.js";
import { ModelBox } from "./controls_model.js";
import {
  addKnown,
  addSizes,
  breakable,
  linked,
  listed,
  numberOf,
  ticks,
} from "./controls_parts.js";
import { make } from "./make.js";
import { grouped, nearest, spoken } from "./numbers.js";

const CHOICE = "vLLM's choice";

export class FieldView {
  /**
   * @param {import("./controls_store.js").Store} store
   * @param {string} name
   */
  constructor(store, name) {
    this.store = store;
    this.name = name;
    this.ids = {
      control: newId(),
      title: newId(),
      name: newId(),
      say: newId(),
      help: newId(),
      mark: newId(),
    };
    this.isTyped = false;
    /** @type {HTMLElement | undefined} */
    this.ticks = undefined;
    /** @type {readonly number[] | undefined} The steps that the ticks are of. */
    this.ticked = undefined;
    /** @type {HTMLElement | undefined} */
    this.tries = undefined;
    this.suggested = "";
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
    // The list of all arguments is under vLLM's names.
    const title = store.model.get("finder") ? "" : this.state.title;
    // A field with a title in plain words shows vLLM's name below it, which explains it;
    // not where the title is that name.
    const isNamed = !!title && title.toLowerCase() !== label;
    const shown = isNamed ? make("span", { id: ids.name }, ...breakable(label)) : "?";
    this.help = make(
      "button",
      {
        type: "button",
        class: isNamed ? "pc-help pc-argument" : "pc-help",
        "aria-expanded": "false",
        "aria-controls": ids.help,
        "aria-label": `What is ${label}?`,
      },
      shown,
    );
    this.reset = make("button", { type: "button", class: "pc-reset" });
    if (title) this.reset.append(make("span", { "aria-hidden": "true" }, "↺"));
    else this.reset.append("Reset");
    this.mark = make("span", { id: ids.mark, class: "pc-mark", hidden: true });
    this.own = make("span", { class: "pc-own" });
    /** @type {HTMLButtonElement[]} One for each usual value. */
    this.buttons = [];
    this.hint = make("p", { class: "pc-hint" });
    this.say = make("div", { id: ids.say, class: "pc-say" }, this.hint);
    this.text = make("div", { id: ids.help, class: "pc-meaning", hidden: true });
    this.row = make("div", { class: "pc-row" });
    this.node = make(
      "div",
      {
        class: `pc-field pc-${this.state.kind}${title ? " pc-titled" : ""}`,
        "data-name": name,
      },
      make(
        "div",
        { class: "pc-head" },
        make(
          "label",
          { for: ids.control, id: ids.title, class: "pl-name" },
          ...breakable(title || label),
        ),
        this.help,
        this.mark,
        this.own,
        this.reset,
      ),
      this.row,
      this.say,
      this.text,
    );
    this.control = this.makeControl(isNamed ? `${title} ${label}` : title || label);
    this.control.id = ids.control;
    if (title) {
      const named = isNamed ? `${ids.title} ${ids.name}` : ids.title;
      this.control.setAttribute("aria-labelledby", named);
    }
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
    if (kind === "presets" || kind === "switch") return this.makeGroup();
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
    if (this.state.usual) addSizes(this, entry);
    if (this.state.known) addKnown(this.row, entry, this.state.known);
    return entry;
  }

  // Buttons of which one is pressed: the presets, on and off.
  makeGroup() {
    const group = make("div", { class: "pc-group-row", role: "group" });
    for (const [value, label, why] of this.state.options ?? []) {
      if (value) group.append(this.makeButton(value, label, why));
    }
    this.row.append(group);
    return group;
  }

  /**
   * @param {string | number} value
   * @param {string} label
   * @param {string} [why]
   */
  makeButton(value, label, why) {
    const attributes = { type: "button", class: "pc-button", value, title: why };
    const button = make("button", attributes, label);
    button.addEventListener("click", () => this.send(value));
    this.buttons.push(button);
    return button;
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
    this.ticks = make("div", { class: "pc-ticks", "aria-hidden": "true" });
    this.row.append(this.ticks);
  }

  // Round numbers below the slider, each at its place.
  showTicks() {
    const { steps = [] } = this.state;
    if (!this.ticks || this.ticked === steps) return;
    this.ticked = steps;
    this.ticks.replaceChildren(...ticks(steps));
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
    if (!(this.control instanceof HTMLDivElement)) this.control.value = "";
    this.send("");
    this.control.focus();
  }

  refresh() {
    const { state } = this;
    this.node.classList.toggle("is-set", Boolean(state.set));
    const own = state.own || CHOICE;
    setText(this.own, state.own ?? "");
    this.own.hidden = Boolean(state.set || state.plain || !state.own);
    this.reset.hidden = !state.set || Boolean(state.plain);
    const back = `Reset ${state.label ?? this.name} to ${own.replace("follows ", "")}`;
    setAttribute(this.reset, "aria-label", back);
    setAttribute(this.reset, "title", back);
    this.mark.hidden = !state.mark;
    const { mark, say } = this.ids;
    setAttribute(this.control, "aria-describedby", state.mark ? `${mark} ${say}` : say);
    setText(this.mark, state.mark ?? "");
    const since = state.since && `came with vLLM ${state.since}`;
    setText(this.hint, since || (state.hint ?? ""));
    this.node.classList.toggle("is-later", Boolean(state.since));
    this.showError(state.e ?? "", state.try ?? []);
    this.showValue();
    if (this.reading) {
      setText(this.reading, state.reading ? `Reading ${state.reading} …` : "");
    }
  }

  /**
   * @param {string} message
   * @param {readonly string[]} suggested
   */
  showError(message, suggested) {
    setAttribute(this.control, "aria-invalid", message ? "true" : null);
    this.node.classList.toggle("is-wrong", Boolean(message));
    this.hint.hidden = Boolean(message);
    this.suggest(message ? suggested : []);
    if (!message) {
      this.alert?.remove();
      this.alert = null;
    } else if (!this.alert) {
      // Made anew for each error: that is when a screen reader speaks it, once.
      this.alert = make("p", { class: "pc-error", role: "alert" }, ...linked(message));
      this.say.append(this.alert);
    } else if (this.alert.textContent !== message) {
      this.alert.replaceChildren(...linked(message));
    }
  }

  /** @param {readonly string[]} values that would be right instead, each a button */
  suggest(values) {
    const key = values.join("\n");
    if (this.suggested === key) return;
    this.suggested = key;
    this.tries?.remove();
    if (!values.length) return;
    const buttons = values.map((value) => {
      const button = make("button", { type: "button", class: "pc-try" }, value);
      button.addEventListener("click", () => {
        this.control.focus();
        if (this.box) this.box.choose(value);
        else this.send(value);
      });
      return button;
    });
    this.tries = make("div", { class: "pc-tries" }, "Try ", ...buttons);
    this.say.after(this.tries);
  }

  showButtons() {
    const { v, c, kind } = this.state;
    for (const button of this.buttons) {
      const isOn = kind === "switch" ? button.value === "true" : c === button.value;
      const isChosen = kind === "switch" ? isOn === (c === "on") : isOn;
      setAttribute(button, "aria-pressed", String(v === button.value));
      button.classList.toggle("is-own", !v && kind !== "presets" && isChosen);
    }
  }

  showValue() {
    this.showButtons();
    if (this.store.isPending(this.name)) return;
    const { control, state } = this;
    if (this.box) this.box.show();
    else if (control instanceof HTMLSelectElement) this.showOptions(control);
    else if (control instanceof HTMLDivElement) return;
    else {
      if (!this.isTyped) control.value = state.v ?? "";
      setAttribute(control, "placeholder", grouped(state.c ?? "") || null);
      if (!state.plain) setAttribute(control, "title", state.v ? null : CHOICE);
      if (this.slider) this.showSlider(this.slider);
    }
  }

  /** @param {HTMLSelectElement} select */
  showOptions(select) {
    const { options = [], v, c } = this.state;
    if (this.listed !== options) {
      this.listed = options;
      select.replaceChildren(...listed(options));
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
    this.showTicks();
    if (number !== null) slider.value = String(nearest(steps, number));
    const text = number === null ? v || CHOICE : spoken(number);
    const own = this.state.own || CHOICE;
    setAttribute(slider, "aria-valuetext", v ? text : `${text}, ${own}`);
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
