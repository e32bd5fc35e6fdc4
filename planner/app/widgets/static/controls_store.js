// What the kernel said of each field, and what is to be sent to it. A step of a slider
// waits until the one before was answered: only the newest counts.

/**
 * What a page shows of a field; `Field.state` of the Python side writes it.
 *
 * @typedef {object} FieldState
 * @property {string} kind
 * @property {string} [label]
 * @property {string} [title] its name in plain words
 * @property {string} [hint]
 * @property {string} [v] what was chosen
 * @property {boolean} [set] whether that is something else than vLLM's choice
 * @property {boolean} [plain] whether it cannot be left to vLLM
 * @property {string} [c] vLLM's choice
 * @property {string} [own] who chooses, where it is not vLLM
 * @property {string} [e] what is wrong
 * @property {string[]} [try] what would be right instead
 * @property {string} [since] the first release that has it, where the planned one does not
 * @property {string} [mark] a word beside its name
 * @property {number[]} [steps] of its slider
 * @property {[key: string, label: string, more?: string, disabled?: string][]} [options] of
 *   its list or its buttons; more: a heading, or what a button says
 * @property {number[]} [usual] values that have a button
 * @property {string[]} [known] names that are offered while one is typed
 * @property {[name: string, size: string, kind: string][]} [rows] bundled models
 * @property {boolean} [hub] whether the Hub may be searched
 * @property {string} [reading] the model that is being read
 *
 * @typedef {object} Controlled what the widget's model holds
 * @property {Record<string, FieldState>} state
 * @property {[title: string, names: string[], isFolded: boolean][]} groups
 * @property {string[]} gone
 * @property {string} finder
 * @property {boolean} is_disabled
 *
 * @typedef {import("@anywidget/types").AnyModel<Controlled>} ControlsModel
 *
 * @typedef {[name: string, facts: string, of: string]} HubRow a model on the Hub, and the
 *   model that it is a quantised release of
 * @typedef {{ rows: HubRow[], remark: string }} Hub what the Hub answered
 *
 * @typedef {object} View
 * @property {(changes: Record<string, Partial<FieldState>>) => void} show
 * @property {(name: string, text: string) => void} explained
 * @property {(text: string, hub: Hub) => void} found
 */

const ANSWER_MS = 10000;
const FRAME_MS = 16;

export class Store {
  /** @param {ControlsModel} model */
  constructor(model) {
    this.model = model;
    this.fields = model.get("state");
    /** @type {Set<View>} */
    this.views = new Set();
    /** @type {Map<string, string | number>} */
    this.waiting = new Map();
    /** @type {Map<string, string>} */
    this.texts = new Map();
    this.number = 0;
    /** @type {number | null} */
    this.unanswered = null;
    this.asked = ""; // the field whose step that is
    this.sentAt = 0;
    this.isDue = false;
    model.on("msg:custom", (message) => this.hear(message));
    // What was told before this page could listen is asked for.
    model.send({ ready: true });
  }

  /**
   * @param {string} name
   * @param {string | number} value
   */
  set(name, value) {
    this.waiting.delete(name);
    this.waiting.set(name, value);
    if (performance.now() - this.sentAt >= FRAME_MS) this.send();
    else this.sendSoon();
  }

  /** @param {string} name */
  isPending(name) {
    const isAsked = this.unanswered !== null && this.asked === name;
    return isAsked || this.waiting.has(name);
  }

  sendSoon() {
    if (this.isDue) return;
    this.isDue = true;
    const send = () => {
      this.isDue = false;
      this.send();
    };
    if (document.hidden) setTimeout(send, FRAME_MS);
    else requestAnimationFrame(send);
  }

  send() {
    if (this.unanswered !== null) return;
    for (const [name, value] of this.waiting) {
      this.waiting.delete(name);
      this.sendOne(name, value);
      return;
    }
  }

  /**
   * @param {string} name
   * @param {string | number} value
   */
  sendOne(name, value) {
    this.number += 1;
    this.unanswered = this.number;
    this.asked = name;
    this.sentAt = performance.now();
    this.model.send({ set: name, value, n: this.number });
    // A kernel that is gone or busy must not lock the controls for ever.
    const { number } = this;
    setTimeout(() => this.answered(number), ANSWER_MS);
  }

  /** @param {number} number */
  answered(number) {
    if (this.unanswered !== number) return;
    this.unanswered = null;
    if (this.waiting.size) this.sendSoon();
  }

  /** @param {any} message of the kernel */
  hear(message) {
    const changes = message?.show ?? {};
    if (message?.ack === this.unanswered && this.unanswered !== null) {
      // Shown also where it changed nothing: the control was moved meanwhile.
      changes[this.asked] ??= {};
      this.answered(this.unanswered);
    }
    if (Object.keys(changes).length) this.show(changes);
    if (message?.explained) {
      this.texts.set(message.explained, message.text);
      this.tellText(message.explained, message.text);
    }
    if (typeof message?.found === "string") {
      const { found, rows, remark } = message;
      for (const view of this.views) view.found(found, { rows, remark });
    }
  }

  /** @param {Record<string, Partial<FieldState>>} changes */
  show(changes) {
    for (const [name, change] of Object.entries(changes)) {
      if (!Object.hasOwn(this.fields, name)) continue;
      Object.assign(this.fields[name], change);
    }
    for (const view of this.views) view.show(changes);
  }

  /** @param {string} name */
  explain(name) {
    const text = this.texts.get(name);
    if (text === undefined) this.model.send({ explain: name });
    else this.tellText(name, text);
  }

  /**
   * @param {string} name
   * @param {string} text
   */
  tellText(name, text) {
    for (const view of this.views) view.explained(name, text);
  }
}

/** @type {WeakMap<ControlsModel, Store>} */
const STORES = new WeakMap();

/**
 * Returns the store of a model, which all its views share.
 *
 * @param {ControlsModel} model
 */
export function storeOf(model) {
  const store = STORES.get(model) ?? new Store(model);
  STORES.set(model, store);
  return store;
}
