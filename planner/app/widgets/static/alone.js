// Starts a widget on a page without a kernel: its state is written beside it.

import "./shortcuts.js";

/**
 * @param {any} widget
 * @param {HTMLOrSVGScriptElement | null} script the running one
 */
export function alone(widget, script) {
  const whole = script?.parentElement;
  const el = whole?.querySelector(".planner-piece");
  const written = whole?.querySelector("script[type='application/json']");
  if (!el || !written) return;
  const state = JSON.parse(written.textContent ?? "{}");
  const model = { get: (/** @type {string} */ name) => state[name] };
  el.replaceChildren();
  widget.render({ model, el });
}
