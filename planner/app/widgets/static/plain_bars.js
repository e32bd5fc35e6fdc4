// The picture of a plan without plotly, for pages of which it is a small part: the same
// segments, drawn as rectangles, under the words and lines that marks.js writes.

import { newId, setAttribute, setText } from "./change.js";
import { writeLegend } from "./legend.js";
import { make } from "./make.js";
import { marks, modeFor, SIDE } from "./marks.js";
import { draw, replaceChanged } from "./pen.js";

/**
 * @typedef {import("./marks.js").Picture} Picture
 * @typedef {import("./marks.js").PictureMode} PictureMode
 * @typedef {import("./marks.js").PictureGhost} PictureGhost
 */

/**
 * @param {Picture} picture
 * @param {PictureMode} mode
 * @param {number} width
 * @returns {SVGElement[]}
 */
export function segments(picture, mode, width) {
  return picture.groups.flatMap((group, index) => {
    const { start, bar } = mode.groups[index];
    const scale = (width - 2 * SIDE) / group.end;
    return group.rows.flatMap(({ parts }, at) => {
      const y = start + at * (mode.title + bar + mode.below) + mode.title;
      return parts.map(([, , from, to, fill]) =>
        draw("rect", {
          class: "pp-segment",
          x: SIDE + from * scale,
          y,
          width: Math.max((to - from) * scale, 0),
          height: bar,
          fill,
        }),
      );
    });
  });
}

/**
 * Keeps a picture in a place, as wide as that is.
 *
 * @param {HTMLElement} place
 * @param {() => PictureGhost} [ghost] of what was shown before
 */
export function plainBars(place, ghost = () => null) {
  const bars = draw("g", {});
  const over = draw("g", { class: "pp-over" });
  const svg = draw(
    "svg",
    { class: "planner-marks", "aria-hidden": "true" },
    bars,
    over,
  );
  const box = make("div", { class: "planner-picture", role: "img" });
  box.append(svg);
  const named = make("div", { class: "planner-legend", "aria-hidden": "true" });
  const soft = make("p", { class: "planner-soft", "aria-hidden": "true" });
  place.append(box, named, soft);
  const id = newId();
  /** @type {Picture | null} */
  let shown = null;
  let width = 0;
  const write = () => {
    if (!shown || !width) return;
    const mode = modeFor(shown, width);
    box.style.height = `${mode.height}px`;
    setAttribute(svg, "viewBox", `0 0 ${width} ${mode.height}`);
    replaceChanged(bars, segments(shown, mode, width));
    replaceChanged(over, marks(shown, mode, width, ghost(), id));
    writeLegend(named, shown, !mode.leaders);
    setText(soft, shown.soft);
  };
  new ResizeObserver((entries) => {
    const now = entries[entries.length - 1].contentRect.width;
    if (now === width) return;
    width = now;
    write();
  }).observe(box);
  return {
    write,
    /** @param {Picture} picture @param {string} spoken for screen readers */
    show(picture, spoken) {
      shown = picture;
      width ||= box.clientWidth;
      setAttribute(box, "aria-label", spoken);
      write();
    },
  };
}
