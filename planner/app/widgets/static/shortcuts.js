// JupyterLab and Notebook take keys as shortcuts from all that is no text entry: an
// arrow on a slider would fold the cell above, a letter in a list delete it. Their
// shortcuts pass over an element with this attribute; it must stand there before they
// look, which they do as the document's first.

const OWN = "[class*=planner-]";

/** @param {KeyboardEvent} event */
const isUndo = (event) => (event.ctrlKey || event.metaKey) && /^[zy]$/i.test(event.key);

/** @param {KeyboardEvent} event */
const isShortcut = (event) =>
  ((event.ctrlKey || event.metaKey) && !isUndo(event)) ||
  event.altKey ||
  event.key === "Escape" ||
  (event.shiftKey && event.key === "Enter");

if (!window.plannerKeepsKeys) {
  window.plannerKeepsKeys = true;
  window.addEventListener(
    "keydown",
    (event) => {
      const { target } = event;
      if (!(target instanceof Element) || !target.closest(OWN)) return;
      if (isShortcut(event)) target.removeAttribute("data-lm-suppress-shortcuts");
      else target.setAttribute("data-lm-suppress-shortcuts", "true");
    },
    true,
  );
}
