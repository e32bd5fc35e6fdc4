// The picture of a plan: plotly's bars with their words, a legend where the words have no
// room, the ghost of the plan before while a control moves, and the buttons that save it.

import { newId, setText } from "./change.js";
import { keepDrawn } from "./draw.js";
import { GhostOfPlan } from "./ghost.js";
import { writeLegend } from "./legend.js";
import { make } from "./make.js";
import { inMode, marks, modeFor } from "./marks.js";
import { draw, replaceChanged } from "./pen.js";
import { saveAs } from "./save.js";

/**
 * @typedef {import("./marks.js").PictureFigure} PictureFigure
 */

/**
 * Folds the buttons that few press behind one.
 *
 * @param {HTMLElement[]} buttons
 */
function folded(buttons) {
  const inside = make("span", { hidden: true }, ...buttons);
  const attributes = { type: "button", "aria-expanded": "false" };
  const more = make("button", { ...attributes, "aria-label": "More of the picture" });
  more.append("More");
  more.addEventListener("click", () => {
    inside.hidden = !inside.hidden;
    more.setAttribute("aria-expanded", String(!inside.hidden));
  });
  return make("span", { class: "planner-save" }, inside, more);
}

/**
 * Keeps the picture of a model's plan in a place, with all its words.
 *
 * @param {import("@anywidget/types").AnyModel<any>} model
 * @param {HTMLElement} place
 * @param {HTMLElement} node where plotly draws; perhaps it has done so already
 * @param {() => string[]} said what a saved picture says above: subject, verdict, margin
 * @param {(() => void)[]} undo gets what ends it
 */
export function keepPicture(model, place, node, said, undo) {
  const over = draw("svg", { class: "planner-marks", "aria-hidden": "true" });
  const named = make("div", { class: "planner-legend", "aria-hidden": "true" });
  const soft = make("p", { class: "planner-soft", "aria-hidden": "true" });
  const save = ["PNG", "SVG"].map((format) => {
    const title = `Save the picture as ${format}`;
    const button = make(
      "button",
      { type: "button", title, "aria-label": title },
      format,
    );
    button.addEventListener("click", () =>
      saveAs(format, model.get("figure"), said(), window.Plotly),
    );
    return button;
  });
  const foot = make("div", { class: "planner-picture-foot" }, soft);
  foot.append(folded(save));
  const box = make("div", { class: "planner-picture" }, node);
  box.append(over);
  place.append(box, named, foot);

  let width = 0;
  const id = newId();
  const ghost = new GhostOfPlan(() => write(model.get("figure"), width));
  undo.push(() => clearTimeout(ghost.timer));
  /** @param {PictureFigure} figure @param {number} wide */
  const write = ({ picture }, wide) => {
    if (!picture) return; // before the first plan
    width = wide;
    const mode = modeFor(picture, width);
    over.setAttribute("viewBox", `0 0 ${width} ${mode.height}`);
    replaceChanged(over, marks(picture, mode, width, ghost.beside(picture), id));
    writeLegend(named, picture, !mode.leaders);
    setText(soft, picture.soft);
  };
  /** @param {PictureFigure} figure @param {number} wide */
  const fit = (figure, wide) =>
    figure.picture ? inMode(figure, modeFor(figure.picture, wide)) : figure;
  return keepDrawn(model, node, undo, { fit, write });
}
