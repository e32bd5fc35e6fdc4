// One field: its name, a short hint, the control, what is wrong, and what it means.

const CHOICE = "vLLM's choice";

class FieldView {
  constructor(store, name) {
    this.store = store;
    this.name = name;
    this.ids = { control: newId(), say: newId(), help: newId() };
    this.isTyped = false;
    this.build();
    this.refresh();
  }

  get state() { return this.store.fields[this.name]; }

  build() {
    const { ids } = this;
    const name = this.state.label ?? this.name;
    this.help = make("button", {
      type: "button", class: "pc-help", "aria-expanded": "false", "aria-controls": ids.help,
      "aria-label": `What is ${name}?`,
    }, "?");
    this.reset = make("button", {
      type: "button", class: "pc-reset", "aria-label": `Reset ${name} to ${CHOICE}`,
    }, "Reset");
    this.own = make("span", { class: "pc-own" }, CHOICE);
    this.say = make("div", { id: ids.say, class: "pc-say" });
    this.hint = make("p", { class: "pc-hint" });
    this.alert = null;
    this.text = make("div", { id: ids.help, class: "pc-meaning", hidden: true });
    this.row = make("div", { class: "pc-row" });
    this.say.append(this.hint);
    const label = make("label", { for: ids.control, class: "pl-name" }, name);
    const head = make("div", { class: "pc-head" }, label, this.help, this.own, this.reset);
    this.node = make("div", { class: `pc-field pc-${this.state.kind}`, "data-name": this.name },
      head, this.row, this.say, this.text);
    this.control = this.makeControl();
    this.control.id = ids.control;
    this.control.setAttribute("aria-describedby", ids.say);
    this.help.addEventListener("click", () => this.explain());
    this.reset.addEventListener("click", () => this.takeBack());
    this.node.addEventListener("keydown", (event) => this.escaped(event));
  }

  makeControl() {
    if (this.state.kind === "choice") return this.makeSelect();
    if (this.state.kind === "model") {
      const input = make("input", { type: "text", class: "pc-entry" });
      this.box = new ModelBox(this.store, input, this.name);
      this.reading = make("p", { class: "pc-reading", role: "status" });
      this.row.append(this.box.node, this.reading);
      return input;
    }
    return this.makeEntry();
  }

  makeSelect() {
    const select = make("select", { class: "pc-select" });
    select.addEventListener("change", () => this.store.set(this.name, select.value));
    this.row.append(select);
    return select;
  }

  makeEntry() {
    const isLong = this.state.kind === "json";
    const entry = isLong
      ? make("textarea", { class: "pc-entry", rows: 2, spellcheck: "false" })
      : make("input", { type: "text", class: "pc-entry", autocomplete: "off",
        spellcheck: "false", autocapitalize: "off", enterkeyhint: "go" });
    entry.addEventListener("input", () => { this.isTyped = true; });
    const sendTyped = () => { if (this.isTyped) this.send(entry.value); };
    entry.addEventListener("change", sendTyped);
    // JupyterLab keeps Enter from becoming a change.
    if (!isLong) {
      entry.addEventListener("keydown", (event) => { if (event.key === "Enter") sendTyped(); });
    }
    if (this.state.steps) this.makeSlider();
    this.row.append(entry);
    return entry;
  }

  makeSlider() {
    this.slider = make("input", { type: "range", class: "pc-range", min: 0, step: 1,
      "aria-label": this.state.label ?? this.name, "aria-describedby": this.ids.say });
    this.slider.addEventListener("input", () => {
      const step = this.state.steps[Number(this.slider.value)];
      this.control.value = String(step);
      this.slider.setAttribute("aria-valuetext", spoken(step));
      this.send(step);
    });
    this.row.append(this.slider);
  }

  send(value) {
    this.isTyped = false;
    this.store.set(this.name, value);
  }

  takeBack() {
    this.isTyped = false;
    this.control.value = "";
    this.store.set(this.name, "");
    this.control.focus();
  }

  refresh() {
    const { state } = this;
    this.node.classList.toggle("is-set", Boolean(state.set));
    this.own.hidden = Boolean(state.set || state.plain);
    this.reset.hidden = !state.set || Boolean(state.plain);
    setText(this.hint, state.since ? `came with vLLM ${state.since}` : state.hint ?? "");
    this.node.classList.toggle("is-later", Boolean(state.since));
    this.showError(state.e ?? "");
    this.showValue();
    if (this.reading) {
      setText(this.reading, state.reading ? `Reading ${state.reading} …` : "");
    }
  }

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
    const { state } = this;
    if (this.box) this.box.show();
    else if (state.kind === "choice") this.showOptions();
    else {
      if (!this.isTyped) this.control.value = state.v ?? "";
      setAttribute(this.control, "placeholder", grouped(state.c ?? "") || null);
      if (this.slider) this.showSlider();
    }
  }

  showOptions() {
    const { options, v, c } = this.state;
    if (this.listed !== options) {
      this.listed = options;
      this.control.replaceChildren(
        ...options.map(([key, label]) => make("option", { value: key }, label)));
    }
    const [first] = options;
    if (first[0] === "") setText(this.control.options[0], c ? `${first[1]}: ${c}` : first[1]);
    this.control.value = v ?? "";
  }

  showSlider() {
    const { steps, v, c } = this.state;
    const number = numberOf(v) ?? numberOf(c);
    setAttribute(this.slider, "max", steps.length - 1);
    if (number !== null) this.slider.value = String(nearest(steps, number));
    const text = number === null ? v || CHOICE : spoken(number);
    setAttribute(this.slider, "aria-valuetext", v ? text : `${text}, ${CHOICE}`);
  }

  explain() {
    if (this.text.hidden) this.store.explain(this.name);
    else this.closeText();
  }

  explained(text) {
    setText(this.text, text || "Nothing is written about this yet.");
    this.text.hidden = false;
    this.help.setAttribute("aria-expanded", "true");
  }

  closeText() {
    this.text.hidden = true;
    this.help.setAttribute("aria-expanded", "false");
  }

  escaped(event) {
    if (event.key !== "Escape" || this.text.hidden) return;
    event.stopPropagation();
    this.closeText();
    this.help.focus();
  }
}
