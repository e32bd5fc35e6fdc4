// The picture of a plan: plotly's bars with their words, a legend where the words have no
// room, the ghost of the plan before while a control moves, and the buttons that save it.

import { newId, setText } from "./change.js";
import { keepDrawn } from "./draw.js";
import { writeLegend } from "./legend.js";
import { make } from "./make.js";
import { inMode, marks, modeFor } from "./marks.js";
import { draw, replaceChanged } from "./pen.js";
import { saveAs } from "./save.js";

/**
 * @typedef {import("./marks.js").Picture} Picture
 * @typedef {import("./marks.js").PictureGhost} PictureGhost
 * @typedef {import("./marks.js").PictureFigure} PictureFigure
 */

const REST_MS = 2000;
const GIB = 2 ** 30;
const HUNDREDTHS = new Intl.NumberFormat("en", {
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
});

/**
 * Says by how much a plan differs from another; empty where it does not.
 *
 * @param {import("./marks.js").PicturePlan} now
 * @param {import("./marks.js").PicturePlan} before
 */
export function difference(now, before) {
  if (now.kv_cache_bytes === null || before.kv_cache_bytes === null) return "";
  const bytes = now.kv_cache_bytes - before.kv_cache_bytes;
  const requests = now.requests - before.requests;
  /** @param {number} value */
  const signed = (value) =>
    `${value < 0 ? "-" : "+"}${HUNDREDTHS.format(Math.abs(value))}`;
  if (!bytes && !requests) return "";
  return `KV cache ${signed(bytes / GIB)} GiB, ${signed(requests)} requests at once`;
}

/** The plan before a control moved; it goes when the reader has rested. */
export class GhostOfPlan {
  /** @param {() => void} ended called when it goes */
  constructor(ended) {
    this.ended = ended;
    /** @type {Picture | null} */
    this.rested = null;
    /** @type {Picture | null} */
    this.last = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /**
   * @param {Picture} picture what is drawn now
   * @returns {PictureGhost}
   */
  beside(picture) {
    const { last } = this;
    if (picture !== last) {
      clearTimeout(this.timer);
      const isOther = last?.plan.of !== picture.plan.of;
      if (isOther || !this.rested) this.rested = picture;
      this.last = picture;
      if (this.rested !== picture) {
        this.timer = setTimeout(() => this.rest(), REST_MS);
      }
    }
    if (!this.rested || this.rested === picture) return null;
    const text = difference(picture.plan, this.rested.plan);
    return text ? { picture: this.rested, text } : null;
  }

  rest() {
    this.rested = this.last;
    this.ended();
  }
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
  foot.append(make("span", { class: "planner-save" }, ...save));
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
