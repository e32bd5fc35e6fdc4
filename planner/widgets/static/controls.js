// Groups of fields: all open, or folded below a box that finds an argument.

class GroupView {
  constructor(view, [title, names]) {
    this.view = view;
    this.title = title;
    this.names = names;
    this.isBuilt = false;
    const isFolded = Boolean(view.finder);
    this.body = make("fieldset", { class: "pc-fields" });
    this.node = make(isFolded ? "details" : "div", { class: "pc-group", "data-title": title });
    if (isFolded) {
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
  }

  mark() {
    if (!this.marks) return;
    const count = this.names.filter((name) => this.view.store.fields[name].set).length;
    setText(this.marks, count ? `${count} set` : String(this.names.length));
    this.node.classList.toggle("is-set", count > 0);
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
    this.root = make("div", { class: "pc-root" });
    if (this.finder) this.root.append(this.makeFinder());
    this.groups = model.get("groups").map((group) => new GroupView(this, group));
    this.root.append(...this.groups.map((group) => group.node));
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

  found(text, names) { this.fields.get("model")?.box?.found(text, names); }

  remove(model) {
    this.store.views.delete(this);
    model.off("change:is_disabled", this.lock);
  }
}

export default {
  render({ model, el }) {
    const view = new ControlsView(model, el);
    return () => view.remove(model);
  },
};
