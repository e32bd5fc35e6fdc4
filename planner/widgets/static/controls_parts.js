// Parts that all controls are made of. Text from anywhere is only ever set as text.

const PREFIX = `pc-${Math.random().toString(36).slice(2, 8)}-`;
let lastId = 0;
const newId = () => `${PREFIX}${(lastId += 1)}`;

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setAttribute(node, name, value) {
  if (value === null || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

const FACTORS = { k: 1e3, m: 1e6, g: 1e9, K: 1024, M: 1024 ** 2, G: 1024 ** 3 };

// Where a slider stands for what was typed; the kernel alone decides what it means.
function numberOf(text) {
  const match = /^\s*([0-9][0-9,_ ]*(?:\.[0-9]+)?|\.[0-9]+)([kKmMgG]?)\s*$/.exec(text ?? "");
  if (!match) return null;
  return Number(match[1].replace(/[,_ ]/g, "")) * (FACTORS[match[2]] ?? 1);
}

function nearest(steps, number) {
  let best = 0;
  steps.forEach((step, at) => {
    if (Math.abs(step - number) < Math.abs(steps[best] - number)) best = at;
  });
  return best;
}

// 131072 is easier to read as 131,072, which the kernel reads as well.
const grouped = (text) => (/^\d{5,}$/.test(text) ? spoken(Number(text)) : text);
const spoken = (number) => number.toLocaleString("en", { maximumFractionDigits: 6 });

// What the kernel said of each field, and what is to be sent to it. A step of a slider
// waits until the one before was answered: only the newest counts.
const ANSWER_MS = 10000;
const FRAME_MS = 16;

class Store {
  constructor(model) {
    this.model = model;
    this.fields = model.get("state");
    this.views = new Set();
    this.waiting = new Map();
    this.texts = new Map();
    this.number = 0;
    this.unanswered = null;
    this.sentAt = 0;
    this.isDue = false;
    model.on("msg:custom", (message) => this.hear(message));
    // What was told before this page could listen is asked for.
    model.send({ ready: true });
  }

  set(name, value) {
    this.waiting.delete(name);
    this.waiting.set(name, value);
    if (performance.now() - this.sentAt >= FRAME_MS) this.send();
    else this.sendSoon();
  }

  isPending(name) {
    return this.waiting.has(name);
  }

  sendSoon() {
    if (this.isDue) return;
    this.isDue = true;
    const send = () => { this.isDue = false; this.send(); };
    if (document.hidden) setTimeout(send, FRAME_MS);
    else requestAnimationFrame(send);
  }

  send() {
    if (this.unanswered !== null || !this.waiting.size) return;
    const [name, value] = this.waiting.entries().next().value;
    this.waiting.delete(name);
    this.number += 1;
    this.unanswered = this.number;
    this.sentAt = performance.now();
    this.model.send({ set: name, value, n: this.number });
    // A kernel that is gone or busy must not lock the controls for ever.
    const number = this.number;
    setTimeout(() => this.answered(number), ANSWER_MS);
  }

  answered(number) {
    if (this.unanswered !== number) return;
    this.unanswered = null;
    if (this.waiting.size) this.sendSoon();
  }

  hear(message) {
    if (message?.show) this.show(message.show);
    if (typeof message?.ack === "number") this.answered(message.ack);
    if (message?.explained) {
      this.texts.set(message.explained, message.text);
      this.views.forEach((view) => view.explained?.(message.explained, message.text));
    }
    if (typeof message?.found === "string") {
      const { found, names, is_reached: isReached } = message;
      this.views.forEach((view) => view.found?.(found, { names, isReached }));
    }
  }

  show(changes) {
    for (const [name, change] of Object.entries(changes)) {
      if (!Object.hasOwn(this.fields, name)) continue;
      Object.assign(this.fields[name], change);
    }
    this.views.forEach((view) => view.show(changes));
  }

  explain(name) {
    if (this.texts.has(name)) {
      const text = this.texts.get(name);
      this.views.forEach((view) => view.explained?.(name, text));
    } else {
      this.model.send({ explain: name });
    }
  }
}

const STORES = new WeakMap();

function storeOf(model) {
  if (!STORES.has(model)) STORES.set(model, new Store(model));
  return STORES.get(model);
}
