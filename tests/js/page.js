// A page without a browser, and the model of a widget without a kernel.

import { Window } from "happy-dom";

const window = new Window({ url: "http://planner.test/" });
const NAMES = [
  "Blob",
  "CSS",
  "CustomEvent",
  "Element",
  "Event",
  "HTMLDetailsElement",
  "HTMLDivElement",
  "HTMLElement",
  "HTMLInputElement",
  "HTMLSelectElement",
  "IntersectionObserver",
  "KeyboardEvent",
  "MutationObserver",
  "ResizeObserver",
  "document",
  "localStorage",
];
for (const name of NAMES) {
  Object.defineProperty(globalThis, name, { value: Reflect.get(window, name) });
}
const { setTimeout } = globalThis;
Object.assign(globalThis, {
  window,
  /** @param {() => void} action */
  requestAnimationFrame: (action) => globalThis.setTimeout(action, 0),
  /**
   * A test that is done does not wait for what a page would do ten seconds later.
   *
   * @param {() => void} action
   * @param {number} delay
   */
  setTimeout: (action, delay) => setTimeout(action, delay).unref(),
});

/** Returns an element that the page holds, alone. */
export function place() {
  document.body.replaceChildren();
  const el = document.createElement("div");
  document.body.append(el);
  return el;
}

/**
 * Finds an element that has to be there.
 *
 * @param {ParentNode} from
 * @param {string} selector
 * @returns {any} of whatever type the test knows it to be
 */
export function find(from, selector) {
  const found = from.querySelector(selector);
  if (!found) throw new Error(`nothing is ${selector}`);
  return found;
}

/** What anywidget hands to a script, with what was sent to the kernel. */
export class FakeModel {
  /** @param {Record<string, unknown>} state */
  constructor(state) {
    this.state = state;
    /** @type {any[]} */
    this.sent = [];
    /** @type {Map<string, Set<(...args: any[]) => void>>} */
    this.callbacks = new Map();
  }

  /** @param {string} name @returns {any} */
  get(name) {
    return this.state[name];
  }

  /** @param {string} name @param {unknown} value */
  set(name, value) {
    this.state[name] = value;
    this.tell(`change:${name}`);
    this.tell("change");
  }

  save_changes() {}

  /** @param {string} events @param {(...args: any[]) => void} callback */
  on(events, callback) {
    for (const event of events.split(" ")) {
      const known = this.callbacks.get(event) ?? new Set();
      this.callbacks.set(event, known.add(callback));
    }
  }

  /** @param {string} events @param {(...args: any[]) => void} callback */
  off(events, callback) {
    for (const event of events.split(" ")) this.callbacks.get(event)?.delete(callback);
  }

  /** @param {unknown} content */
  send(content) {
    this.sent.push(content);
  }

  /** @param {string} event @param {...unknown} given */
  tell(event, ...given) {
    for (const callback of this.callbacks.get(event) ?? []) callback(...given);
  }

  /** Returns how many callbacks are waiting. */
  get count() {
    return [...this.callbacks.values()].reduce((sum, { size }) => sum + size, 0);
  }
}

/**
 * Renders a widget; returns where it is and what takes it away.
 *
 * @param {any} widget
 * @param {FakeModel} model
 */
export function render(widget, model, el = place()) {
  const remove = widget.render({ model, el });
  return { el, remove };
}
