// The box at the top: a model, a command, a manifest, a log or an error goes in, and the
// kernel says what it read.

import { newId } from "./change.js";
import { make } from "./make.js";
import { fill, part } from "./parts.js";

const PAUSE_MS = 700;
const MOST_ROWS = 10;
// A message of the app is below 256 KiB; a character is up to six bytes of it.
const PIECE = 40000;

/**
 * @typedef {object} Pasted
 * @property {string} label
 * @property {string} hint what the empty box shows
 * @property {number} most characters that are read
 * @property {string} said what the text was taken for
 * @property {boolean} is_busy
 *
 * @typedef {import("@anywidget/types").AnyModel<Pasted>} PastedModel
 */

/**
 * Sends a text in pieces. One character too many tells the kernel that there are more.
 *
 * @param {PastedModel} model
 * @param {string} text
 * @param {boolean} isWhole whether the reader is done with it, or is still typing
 */
function send(model, text, isWhole) {
  const sent = text.slice(0, model.get("most") + 1);
  let at = 0;
  do {
    const piece = sent.slice(at, at + PIECE);
    const isLast = at + PIECE >= sent.length;
    model.send({ piece, is_first: !at, is_last: isLast, is_whole: isWhole });
    at += PIECE;
  } while (at < sent.length);
}

/** @type {import("@anywidget/types").AnyWidget<Pasted>} */
export default {
  render({ model, el }) {
    el.classList.add("planner-paste");
    const id = newId();
    const box = make("textarea", {
      id,
      rows: 1,
      class: "pl-paste-text",
      placeholder: model.get("hint"),
      spellcheck: "false",
      autocomplete: "off",
      autocapitalize: "off",
    });
    const label = make(
      "label",
      { for: id, class: "pl-paste-name" },
      model.get("label"),
    );
    const button = make("button", { type: "button", class: "pl-paste-read" }, "Read");
    el.append(make("div", { class: "pl-paste-row" }, label, box, button));
    // A live region speaks what changes in it: it is there before that.
    const said = part(el, "paste-said");
    said.setAttribute("role", "status");
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    /** @param {boolean} isWhole */
    const read = (isWhole) => {
      clearTimeout(timer);
      send(model, box.value, isWhole);
    };
    button.addEventListener("click", () => read(true));
    box.addEventListener("input", (event) => {
      box.rows = Math.min(box.value.split("\n", MOST_ROWS).length, MOST_ROWS);
      clearTimeout(timer);
      const how = event instanceof InputEvent ? event.inputType : "";
      const isPasted = /^insertFrom(Paste|Drop)/.test(how);
      timer = setTimeout(read, isPasted ? 0 : PAUSE_MS, isPasted);
    });
    box.addEventListener("keydown", (event) => {
      const isEnd = event.key === "Enter" && !event.shiftKey && !event.isComposing;
      if (!isEnd || box.value.includes("\n")) return;
      event.preventDefault();
      read(true);
    });
    const show = () => {
      el.setAttribute("aria-busy", String(model.get("is_busy")));
      fill(said, model.get("said"));
    };
    model.on("change:said change:is_busy", show);
    show();
    return () => {
      clearTimeout(timer);
      model.off("change:said change:is_busy", show);
    };
  },
};
