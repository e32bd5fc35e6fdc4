// Commands and links to be taken away, each with a button that copies it.

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

/**
 * Writes this page's own address before a link where the page is the app.
 *
 * @param {Element} root
 */
export function fillLinks(root) {
  if (!document.getElementById("planner-plotly")) return;
  const page = window.location.origin + window.location.pathname;
  /** @type {NodeListOf<HTMLElement>} */
  const links = root.querySelectorAll("code[data-link]");
  for (const code of links) code.textContent = `${page}${code.dataset.link}`;
}
