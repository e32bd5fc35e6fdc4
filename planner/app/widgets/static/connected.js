// Views are attached after they are rendered: what measures its place waits for that.

/**
 * @param {Node} el
 * @param {() => void} action
 */
export function whenConnected(el, action) {
  if (el.isConnected) action();
  else requestAnimationFrame(() => whenConnected(el, action));
}
