// Commands to be taken away, each with a button that copies it.

/** @param {Event} event */
export async function copy({ target }) {
  if (!(target instanceof Element)) return;
  const button = target.closest("[data-copy]");
  const code = button?.parentElement?.querySelector("code");
  if (!button || !code) return;
  try {
    await navigator.clipboard.writeText(code.textContent ?? "");
  } catch {
    // Without a secure context there is no clipboard: select the text for the user.
    window.getSelection()?.selectAllChildren(code);
    button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
    return;
  }
  button.textContent = "Copied";
  setTimeout(() => {
    button.textContent = "Copy";
  }, 1500);
}
