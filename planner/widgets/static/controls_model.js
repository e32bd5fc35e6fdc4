// The box that names a model: a combobox with a list (WAI-ARIA's pattern "editable
// combobox with list autocomplete"). Bundled models are searched here, the Hub's there.

const MOST_SHOWN = 60;
const LEAST_TYPED = 3;
const PAUSE_MS = 300;
const NOT_ASKED = { names: [], isReached: true };

const plain = (text) => text.toLowerCase().replace(/[-_. ]+/g, "");

function scoreOf(word, whole, model, name) {
  if (word === model || word === whole) return 0;
  if (model.startsWith(word)) return 1;
  if (whole.startsWith(word)) return 2;
  if (!whole.includes(word)) return null;
  return name.split(/[-_./ ]+/).some((piece) => piece.startsWith(word)) ? 3 : 4;
}

function hasLetters(word, whole) {
  let at = 0;
  for (const letter of whole) if (letter === word[at]) at += 1;
  return at === word.length;
}

// As planner.ranking does: every word must be found; scattered letters count last.
function searched(text, rows) {
  const words = text.toLowerCase().split(/\s+/).map(plain).filter(Boolean);
  if (!words.length) return rows;
  const named = rows.map((row) => {
    const whole = plain(row[0]);
    return { row, whole, model: whole.slice(whole.lastIndexOf("/") + 1) };
  });
  let found = [];
  for (const { row, whole, model } of named) {
    const scores = words.map((word) => scoreOf(word, whole, model, row[0].toLowerCase()));
    if (scores.includes(null)) continue;
    found.push([scores.reduce((sum, one) => sum + one, 0), row]);
  }
  if (!found.length) {
    found = named
      .filter(({ whole }) => words.every((word) => hasLetters(word, whole)))
      .map(({ row }) => [5, row]);
  }
  const order = (a, b) => a[0] - b[0] || a[1][0].length - b[1][0].length
    || (a[1][0] < b[1][0] ? -1 : 1);
  return found.sort(order).map(([, row]) => row);
}

class ModelBox {
  constructor(store, input, name) {
    this.store = store;
    this.name = name;
    this.input = input;
    this.options = [];
    this.active = -1;
    this.isTyped = false;
    this.hub = { text: "", ...NOT_ASKED };
    this.list = make("div", {
      id: newId(), role: "listbox", class: "pc-list", "aria-label": "Models", hidden: true,
    });
    this.count = make("p", { class: "pc-unseen", role: "status" });
    const attributes = {
      role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false",
      "aria-controls": this.list.id, autocomplete: "off", autocapitalize: "off",
      spellcheck: "false", enterkeyhint: "go", placeholder: "owner/name",
    };
    for (const [name, value] of Object.entries(attributes)) input.setAttribute(name, value);
    this.node = make("div", { class: "pc-combo" }, input, this.list, this.count);
    this.attend();
  }

  get state() { return this.store.fields[this.name]; }

  // A draft is chosen from the same list as the model.
  get rows() { return this.state.rows ?? this.store.fields.model.rows; }

  attend() {
    const { input, list } = this;
    input.addEventListener("input", () => this.typed());
    input.addEventListener("click", () => { if (list.hidden) this.open(""); });
    input.addEventListener("focus", () => input.select());
    input.addEventListener("blur", () => this.left());
    input.addEventListener("keydown", (event) => this.pressed(event));
    // Focus stays in the entry while an option is pressed.
    list.addEventListener("pointerdown", (event) => event.preventDefault());
    list.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) this.choose(option.dataset.name);
    });
  }

  typed() {
    this.isTyped = true;
    this.open(this.input.value);
    clearTimeout(this.timer);
    const text = this.input.value.trim();
    if (text.length < LEAST_TYPED) return;
    this.timer = setTimeout(() => this.store.model.send({ find: text }), PAUSE_MS);
  }

  found(text, hub) {
    if (this.list.hidden || text !== this.input.value.trim()) return;
    this.hub = { text, ...hub };
    this.fill(this.input.value);
  }

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

  fill(text) {
    const kept = this.options[this.active]?.dataset.name;
    const found = searched(text.trim(), this.rows);
    const names = new Set(found.map((row) => row[0]));
    const isOfText = this.hub.text && this.hub.text === text.trim();
    const hub = isOfText ? this.hub : NOT_ASKED;
    const elsewhere = hub.names.filter((name) => !names.has(name));
    this.list.replaceChildren();
    if (found.length) this.section("Bundled: planned offline", found.slice(0, MOST_SHOWN));
    if (found.length > MOST_SHOWN) {
      this.remark(`${found.length - MOST_SHOWN} more: type to narrow`);
    }
    if (elsewhere.length) {
      this.section("On the Hugging Face Hub", elsewhere.map((name) => [name, "", ""]));
    }
    if (!hub.isReached) this.remark("Hub not reachable");
    if (!found.length && !elsewhere.length) {
      this.remark("No bundled model of this name. Enter takes it as a Hub id.");
    }
    this.options = [...this.list.querySelectorAll("[role=option]")];
    this.move(this.options.findIndex((option) => option.dataset.name === kept));
    const count = found.length + elsewhere.length;
    setText(this.count, `${count} ${count === 1 ? "model" : "models"}`);
  }

  section(title, rows) {
    const heading = make("div", { class: "pc-list-title", role: "presentation" }, title);
    const group = make("div", { role: "group", "aria-label": title }, heading);
    for (const [name, size, kind] of rows) {
      const option = make("div", { role: "option", id: newId(), "aria-selected": "false" },
        make("span", { class: "pc-option-name" }, name));
      const facts = [size, kind].filter(Boolean).join(", ");
      if (facts) option.append(" ", make("span", { class: "pc-option-facts" }, facts));
      if (name === this.state.v) option.classList.add("is-chosen");
      option.dataset.name = name;
      group.append(option);
    }
    this.list.append(group);
  }

  remark(text) {
    this.list.append(make("div", { class: "pc-list-title", role: "presentation" }, text));
  }

  move(place) {
    this.options[this.active]?.setAttribute("aria-selected", "false");
    this.active = place;
    const option = this.options[place];
    setAttribute(this.input, "aria-activedescendant", option && !this.list.hidden
      ? option.id : null);
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
  }

  step(by) {
    if (this.list.hidden) this.open(this.isTyped ? this.input.value : "");
    const { length } = this.options;
    if (!length) return;
    if (this.active < 0) this.move(by > 0 ? 0 : length - 1);
    else this.move((this.active + by + length) % length);
  }

  pressed(event) {
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
    if (option && !this.list.hidden) return this.choose(option.dataset.name);
    const text = this.input.value.trim();
    const isName = /[\\/~.]/.test(text) || !text;
    const first = isName ? undefined : searched(text, this.rows)[0]?.[0];
    this.choose(first ?? text);
  }

  escape(event) {
    if (this.list.hidden && !this.isTyped) return;
    event.stopPropagation();
    if (!this.list.hidden) return this.close();
    this.restore();
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
