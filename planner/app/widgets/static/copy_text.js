// A button that copies a text.

import { setText } from "./change.js";

/** @param {HTMLButtonElement} button @param {HTMLElement} text */
export async function copyText(button, text) {
  try {
    await navigator.clipboard.writeText(text.textContent ?? "");
    setText(button, "Copied");
  } catch {
    // Without a secure context there is no clipboard: select the text for the user.
    window.getSelection()?.selectAllChildren(text);
    setText(button, document.execCommand("copy") ? "Copied" : "Press Ctrl+C");
  }
}
