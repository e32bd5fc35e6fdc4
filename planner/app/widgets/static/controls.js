// Groups of fields: all open, or folded below a box that finds an argument.

import { newId, setText } from "./change.js";
import { FieldView } from "./controls_field.js";
import { storeOf } from "./controls_store.js";
import { make } from "./make.js";

const OWN = "in grey: vLLM's choice";

/** @param {string} name */
function isSeen(name) {
  /** @type {NodeListOf<HTMLElement>} */
  const fields = document.querySelectorAll(`.pc-more .pc-field[data-name="${name}"]`);
  return [...fields].some((field) => field.offsetParent);
}

class GroupView {
  /**
   * @param {ControlsView} view
   * @param {[title: string, names: string[], isFolded: boolean]} group
   */
  constructor(view, [title, names, isFolded]) {
    this.view = view;
    this.title = title;
    this.names = names;
    this.isBuilt = false;
    this.wrong = "";
    this.body = make("fieldset", { class: "pc-fields" });
    const marks = make("span", { class: "pc-marks" });
    const attributes = { class: "pc-group", "data-title": title };
    if (view.finder || isFolded) {
      const summary = make("summary", {}, title, " ", marks);
      this.folded = make("details", attributes, summary, this.body);
      this.node = this.folded;
      this.marks = marks;
      this.body.append(make("legend", { class: "pc-unseen" }, title));
      this.folded.addEventListener("toggle", () => {
        if (this.folded?.open) this.build();
      });
    } else {
      this.node = make("div", attributes, this.body);
      const legend = make("legend", { class: "pc-title" }, title);
      const hasSliders = names.some((name) => view.store.fields[name].steps);
      if (hasSliders) legend.append(make("span", { class: "pc-note" }, OWN));
      if (title) this.body.append(legend);
      this.build();
    }
    this.mark();
  }

  build() {
    if (this.isBuilt) return;
    this.isBuilt = true;
    for (const name of this.names) {
      const field = new FieldView(this.view.store, name);
      this.view.fields.set(name, field);
      this.body.append(field.node);
    }
    this.place();
  }

  mark() {
    if (!this.marks) return;
    const { store, finder } = this.view;
    const set = this.names.filter((name) => store.fields[name].set);
    // A table is there twice: as the fields of its parts, and whole.
    const parts = set.filter((name) => finder || store.fields[name].kind !== "json");
    const count = Math.max(parts.length, set.length ? 1 : 0);
    const all = finder ? String(this.names.length) : "";
    setText(this.marks, count ? `${count} set` : all);
    this.node.classList.toggle("is-set", count > 0);
    this.expose();
  }

  // A folded group must not hide what is wrong, unless it is seen elsewhere.
  expose() {
    if (!this.folded || this.view.finder) return;
    const { fields } = this.view.store;
    const wrong = this.names.filter((name) => fields[name].e && !isSeen(name)).join();
    if (wrong && wrong !== this.wrong) this.folded.open = true;
    if (this.folded.open) this.build();
    this.wrong = wrong;
  }

  // Hides what does not apply; a group of nothing is not there.
  place() {
    const { gone } = this.view;
    for (const name of this.names) {
      const field = this.view.fields.get(name);
      if (field) field.node.hidden = gone.has(name);
    }
    if (!this.view.finder)
      this.node.hidden = this.names.every((name) => gone.has(name));
  }

  /**
   * Shows the fields that hold every word; returns how many.
   *
   * @param {string[]} words
   * @param {boolean} isOnlySet
   */
  filter(words, isOnlySet) {
    const found = this.names.filter((name) => this.holds(name, words, isOnlySet));
    const isFiltered = words.length > 0 || isOnlySet;
    this.node.hidden = isFiltered && !found.length;
    if (found.length && isFiltered) this.build();
    if (this.folded) this.folded.open = isFiltered && found.length > 0;
    const shown = new Set(found);
    for (const name of this.names) {
      const field = this.view.fields.get(name);
      if (field) field.node.hidden = !shown.has(name);
    }
    return found.length;
  }

  /**
   * @param {string} name
   * @param {string[]} words
   * @param {boolean} isOnlySet
   */
  holds(name, words, isOnlySet) {
    const { hint = "", set, plain } = this.view.store.fields[name];
    if (isOnlySet && (!set || plain)) return false;
    const text = `${name} ${name.replaceAll("_", " ")} ${hint} ${this.title}`;
    return words.every((word) => text.toLowerCase().includes(word));
  }
}

class ControlsView {
  /**
   * @param {import("./controls_store.js").ControlsModel} model
   * @param {Element} el
   */
  constructor(model, el) {
    this.store = storeOf(model);
    this.finder = model.get("finder");
    /** @type {Map<string, FieldView>} */
    this.fields = new Map();
    this.gone = new Set(model.get("gone"));
    this.groups = model.get("groups").map((group) => new GroupView(this, group));
    const nodes = this.groups.map((group) => group.node);
    const finder = this.finder ? [this.makeFinder()] : [];
    el.append(make("div", { class: "pc-root" }, ...finder, ...nodes));
    this.place = () => {
      this.gone = new Set(model.get("gone"));
      for (const group of this.groups) group.place();
    };
    model.on("change:gone", this.place);
    this.place();
    this.store.views.add(this);
    this.lock = () => {
      for (const group of this.groups) group.body.disabled = model.get("is_disabled");
    };
    model.on("change:is_disabled", this.lock);
    this.lock();
  }

  makeFinder() {
    const entry = make("input", {
      id: newId(),
      type: "search",
      class: "pc-entry",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "lora, offload, cache …",
    });
    const only = make("input", { id: newId(), type: "checkbox" });
    const count = make("p", { class: "pc-count", role: "status" });
    const filter = () => setText(count, this.filter(entry.value, only.checked));
    entry.addEventListener("input", filter);
    only.addEventListener("change", filter);
    const name = make("label", { for: entry.id, class: "pc-finder-name" }, this.finder);
    const onlySet = { class: "pc-only", for: only.id };
    return make(
      "div",
      { class: "pc-finder" },
      name,
      entry,
      make("label", onlySet, only, " only those set"),
      count,
    );
  }

  /**
   * Shows what holds every word of a text; returns how many there are, in words.
   *
   * @param {string} text
   * @param {boolean} isOnlySet
   */
  filter(text, isOnlySet) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const group of this.groups) count += group.filter(words, isOnlySet);
    if (!words.length && !isOnlySet) return "";
    return `${count} ${count === 1 ? "argument" : "arguments"}`;
  }

  /** @param {Record<string, unknown>} changes by the name of the field */
  show(changes) {
    for (const name of Object.keys(changes)) this.fields.get(name)?.refresh();
    for (const group of this.groups) group.mark();
  }

  /**
   * @param {string} name
   * @param {string} text
   */
  explained(name, text) {
    this.fields.get(name)?.explained(text);
  }

  /**
   * @param {string} text
   * @param {import("./controls_store.js").Hub} hub
   */
  found(text, hub) {
    for (const field of this.fields.values()) field.box?.found(text, hub);
  }

  /** @param {import("./controls_store.js").ControlsModel} model */
  remove(model) {
    this.store.views.delete(this);
    model.off("change:is_disabled", this.lock);
    model.off("change:gone", this.place);
  }
}

/** @type {import("@anywidget/types").AnyWidget<import("./controls_store.js").Controlled>} */
export default {
  render({ model, el }) {
    const view = new ControlsView(model, el);
    return () => view.remove(model);
  },
};
