// Views are attached after they are rendered: what measures its place waits for that.
function whenConnected(el, action) {
  if (el.isConnected) return action();
  requestAnimationFrame(() => whenConnected(el, action));
}
