// Groups of fields: all open, or folded below a box that finds an argument.

const isSeen = (name) => [...document.querySelectorAll(
  `.pc-more .pc-field[data-name="${name}"]`)].some((field) => field.offsetParent);

class GroupView {
  constructor(view, [title, names, isFolded]) {
    this.view = view;
    this.title = title;
    this.names = names;
    this.isBuilt = false;
    this.isFolded = Boolean(view.finder || isFolded);
    this.body = make("fieldset", { class: "pc-fields" });
    this.node = make(this.isFolded ? "details" : "div",
      { class: "pc-group", "data-title": title });
    if (this.isFolded) {
      this.marks = make("span", { class: "pc-marks" });
      this.node.append(make("summary", {}, title, " ", this.marks), this.body);
      this.body.append(make("legend", { class: "pc-unseen" }, title));
      this.node.addEventListener("toggle", () => { if (this.node.open) this.build(); });
    } else {
      this.node.append(this.body);
      if (title) this.body.append(make("legend", { class: "pc-title" }, title));
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
    setText(this.marks, count ? `${count} set` : finder ? String(this.names.length) : "");
    this.node.classList.toggle("is-set", count > 0);
    this.expose();
  }

  // A folded group must not hide what is wrong, unless it is seen elsewhere.
  expose() {
    if (!this.isFolded || this.view.finder) return;
    const { fields } = this.view.store;
    const wrong = this.names.filter((name) => fields[name].e && !isSeen(name)).join();
    if (wrong && wrong !== this.wrong) this.node.open = true;
    if (this.node.open) this.build();
    this.wrong = wrong;
  }

  // Hides what does not apply; a group of nothing is not there.
  place() {
    const { gone } = this.view;
    for (const name of this.names) {
      const field = this.view.fields.get(name);
      if (field) field.node.hidden = gone.has(name);
    }
    if (!this.view.finder) this.node.hidden = this.names.every((name) => gone.has(name));
  }

  // Shows the fields that hold every word; returns how many.
  filter(words, isOnlySet) {
    const found = this.names.filter((name) => this.holds(name, words, isOnlySet));
    const isFiltered = words.length > 0 || isOnlySet;
    this.node.hidden = isFiltered && !found.length;
    if (found.length && isFiltered) this.build();
    this.node.open = isFiltered ? found.length > 0 : false;
    const shown = new Set(found);
    for (const name of this.names) {
      const field = this.view.fields.get(name);
      if (field) field.node.hidden = !shown.has(name);
    }
    return found.length;
  }

  holds(name, words, isOnlySet) {
    const { hint, set, plain } = this.view.store.fields[name];
    if (isOnlySet && (!set || plain)) return false;
    const text = `${name} ${name.replaceAll("_", " ")} ${hint ?? ""} ${this.title}`.toLowerCase();
    return words.every((word) => text.includes(word));
  }
}

class ControlsView {
  constructor(model, el) {
    this.store = storeOf(model);
    this.finder = model.get("finder");
    this.fields = new Map();
    this.gone = new Set(model.get("gone"));
    this.root = make("div", { class: "pc-root" });
    if (this.finder) this.root.append(this.makeFinder());
    this.groups = model.get("groups").map((group) => new GroupView(this, group));
    this.root.append(...this.groups.map((group) => group.node));
    this.place = () => {
      this.gone = new Set(model.get("gone"));
      for (const group of this.groups) group.place();
    };
    model.on("change:gone", this.place);
    this.place();
    el.append(this.root);
    this.store.views.add(this);
    this.lock = () => {
      for (const group of this.groups) group.body.disabled = model.get("is_disabled");
    };
    model.on("change:is_disabled", this.lock);
    this.lock();
  }

  makeFinder() {
    const id = newId();
    this.entry = make("input", { id, type: "search", class: "pc-entry", autocomplete: "off",
      spellcheck: "false", placeholder: "lora, offload, cache …" });
    this.only = make("input", { id: newId(), type: "checkbox" });
    this.count = make("p", { class: "pc-count", role: "status" });
    const filter = () => this.filter();
    this.entry.addEventListener("input", filter);
    this.only.addEventListener("change", filter);
    return make("div", { class: "pc-finder" },
      make("label", { for: id, class: "pc-finder-name" }, this.finder), this.entry,
      make("label", { class: "pc-only", for: this.only.id }, this.only, " only those set"),
      this.count);
  }

  filter() {
    const words = this.entry.value.toLowerCase().split(/\s+/).filter(Boolean);
    const isOnlySet = this.only.checked;
    const counts = this.groups.map((group) => group.filter(words, isOnlySet));
    const count = counts.reduce((sum, one) => sum + one, 0);
    const isFiltered = words.length > 0 || isOnlySet;
    setText(this.count, isFiltered ? `${count} ${count === 1 ? "argument" : "arguments"}` : "");
  }

  show(changes) {
    for (const name of Object.keys(changes)) this.fields.get(name)?.refresh();
    for (const group of this.groups) group.mark();
  }

  explained(name, text) { this.fields.get(name)?.explained(text); }

  found(text, hub) {
    for (const field of this.fields.values()) field.box?.found(text, hub);
  }

  remove(model) {
    this.store.views.delete(this);
    model.off("change:is_disabled", this.lock);
    model.off("change:gone", this.place);
  }
}

export default {
  render({ model, el }) {
    const view = new ControlsView(model, el);
    return () => view.remove(model);
  },
};
