// A slider over the values of one argument: the bar, the verdict and the figures of each
// were computed before, so that it moves without a kernel.

import { newId, setText } from "./change.js";
import { GhostOfPlan } from "./ghost.js";
import { make } from "./make.js";
import { fill } from "./parts.js";
import { plainBars } from "./plain_bars.js";

/**
 * @typedef {object} SlideFrame texts are numbers of `texts`
 * @property {string} value
 * @property {import("./marks.js").Picture} picture
 * @property {number} spoken
 * @property {number} verdict
 * @property {number} figures
 * @property {number} error
 * @property {[name: string, size: string, why: number][]} lines
 *
 * @typedef {object} Slide
 * @property {string} vary
 * @property {number} start
 * @property {SlideFrame[]} frames
 * @property {string[]} texts
 */

/**
 * @param {string} vary
 * @param {SlideFrame[]} frames
 * @param {number} start
 */
function control(vary, frames, start) {
  const id = newId();
  const input = make("input", {
    id,
    type: "range",
    class: "pp-range",
    min: 0,
    max: frames.length - 1,
    step: 1,
    value: start,
  });
  input.value = String(start);
  const now = make("output", { class: "pp-now", for: id });
  const name = make("label", { class: "pp-name", for: id }, make("code", {}, vary));
  const ends = make(
    "div",
    { class: "pp-ends", "aria-hidden": "true" },
    make("span", {}, frames[0].value),
    make("span", {}, frames[frames.length - 1].value),
  );
  const head = make("div", { class: "pp-head" }, name, now);
  return { input, now, node: make("div", { class: "pp-control" }, head, input, ends) };
}

/** @param {SlideFrame} frame @param {string[]} texts */
function arithmetic({ lines }, texts) {
  return lines.map(([name, size, why]) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, name),
      make("td", { class: "pl-number" }, size),
      make("td", { class: "pl-why" }, texts[why]),
    ),
  );
}

/** The lines of an account with their arithmetic, folded. */
function account() {
  const body = make("tbody");
  const titles = ["Memory line", "Size", "Arithmetic"].map((title) =>
    make("th", { scope: "col" }, title),
  );
  const head = make("thead", {}, make("tr", {}, ...titles));
  const table = make("table", { class: "pl-lines pp-lines" }, head, body);
  const folded = make("details", { class: "pl-rank" });
  folded.append(make("summary", {}, "The arithmetic, line by line"), table);
  return { folded, body };
}

/** @type {import("@anywidget/types").AnyWidget<Slide>} */
export default {
  render({ model, el }) {
    const frames = model.get("frames");
    const texts = model.get("texts");
    el.classList.add("planner-slide");
    const slider = control(model.get("vary"), frames, model.get("start"));
    const verdict = make("div", { role: "status", "aria-live": "polite" });
    const error = make("div");
    const figures = make("div", { class: "pp-figures" });
    const bar = make("div", { class: "pp-bar" });
    const { folded, body } = account();
    el.append(slider.node, bar, verdict, error, figures, folded);
    const current = () => frames[Number(slider.input.value)];
    const ghost = new GhostOfPlan(() => picture.write());
    const picture = plainBars(bar, () => ghost.beside(current().picture));
    const show = () => {
      const frame = current();
      setText(slider.now, frame.value);
      slider.input.setAttribute("aria-valuetext", frame.value);
      picture.show(frame.picture, texts[frame.spoken]);
      fill(verdict, texts[frame.verdict]);
      fill(error, texts[frame.error]);
      fill(figures, texts[frame.figures]);
      body.replaceChildren(...arithmetic(frame, texts));
      folded.hidden = !frame.lines.length;
    };
    slider.input.addEventListener("input", show);
    show();
  },
};
