// The words and lines of the picture as SVG over plotly's bars: names, sizes, the edges of
// vLLM's budget and of the GPU, the soft edge of the KV cache, the axis, and the ghost.

import { labelled, neededWidth, ticks } from "./labels.js";
import { draw, FONT_PIXELS, line, measured, words } from "./pen.js";

/**
 * @typedef {import("./labels.js").PicturePart} PicturePart
 * @typedef {import("./labels.js").Measure} Measure
 *
 * @typedef {object} PictureRow
 * @property {string} title
 * @property {PicturePart[]} parts
 * @property {[number, number, number, string, string] | null} soft early, estimate, late,
 *   and the colours before and behind
 *
 * @typedef {object} PictureGroup
 * @property {string} unit
 * @property {number} end of the axis, in GiB
 * @property {{ at: number, text: string, budget: boolean }[]} edges
 * @property {PictureRow[]} rows
 *
 * @typedef {object} PictureMode where the bars are, in pixels
 * @property {boolean} leaders
 * @property {number} title
 * @property {number} below
 * @property {number} height
 * @property {{ top: number, start: number, end: number, bar: number }[]} groups
 *
 * @typedef {object} PicturePlan
 * @property {string} of
 * @property {number | null} kv_cache_bytes
 * @property {number} requests
 *
 * @typedef {object} Picture
 * @property {PictureGroup[]} groups
 * @property {PictureMode[]} modes
 * @property {string} soft
 * @property {PicturePlan} plan
 *
 * @typedef {{ picture: Picture, text: string } | null} PictureGhost
 * @typedef {import("./draw.js").Figure & { picture: Picture }} PictureFigure
 */

export const SIDE = 8;
const LINE = 14;
const EDGE_PIXELS = 18;
const RESERVED = "missing";

/**
 * Chooses leader lines where the names fit beside each other, else a legend.
 *
 * @param {Picture} picture
 * @param {number} width
 * @returns {PictureMode}
 */
export function modeFor(picture, width) {
  const [legend, leaders] = picture.modes;
  if (!leaders) return legend;
  const fits = picture.groups.every(({ rows }) =>
    rows.every(({ parts }) => {
      const labels = new Map(parts.map(([name, size]) => [name, size]));
      if (!labels.has(RESERVED)) labels.set(RESERVED, "");
      return neededWidth([...labels], measured) <= width - 2 * SIDE;
    }),
  );
  return fits ? leaders : legend;
}

/**
 * Returns plotly's figure with the bars where a mode has them.
 *
 * @param {PictureFigure} figure
 * @param {PictureMode} mode
 * @returns {import("./draw.js").Figure}
 */
export function inMode({ data, layout, picture }, mode) {
  /** @type {Record<string, object>} */
  const axes = {};
  const moved = data.map((trace, index) => {
    const { start, end, bar } = mode.groups[index];
    const rows = picture.groups[index].rows.length;
    const pitch = (end - start) / rows;
    const first = (mode.title + bar / 2) / pitch;
    const name = index ? `yaxis${index + 1}` : "yaxis";
    axes[name] = {
      .../** @type {Record<string, object>} */ (layout)[name],
      range: [rows - first, -first],
      domain: [1 - end / mode.height, 1 - start / mode.height],
    };
    return { ...trace, width: bar / pitch };
  });
  return { data: moved, layout: { ...layout, ...axes, height: mode.height } };
}

/**
 * @param {PictureRow} row
 * @param {number} top of the bar
 * @param {number} bar its height
 * @param {(gib: number) => number} place
 * @param {string} id of its gradient in the page
 * @returns {SVGElement[]}
 */
function softEdge({ soft }, top, bar, place, id) {
  if (!soft) return [];
  const [early, middle, late, before, behind] = soft;
  const share = (middle - early) / (late - early);
  /** @param {number} offset @param {string} color @param {number} opacity */
  const stop = (offset, color, opacity) =>
    draw("stop", { offset, "stop-color": color, "stop-opacity": opacity });
  const gradient = draw(
    "linearGradient",
    { id },
    stop(0, behind, 0),
    stop(share, behind, 0.55),
    stop(share, before, 0.45),
    stop(1, before, 0),
  );
  const [x, y] = [place(early), top + 0.5];
  const size = { width: place(late) - x, height: bar - 1 };
  const dash = { "stroke-dasharray": "2 3", "stroke-opacity": 0.55 };
  return [
    draw("defs", {}, gradient),
    draw("rect", { class: "pm-soft", x, y, ...size, fill: `url(#${id})` }),
    line(x, top, x, top + bar, { ...dash, class: "pm-soft-end" }),
    line(place(late), top, place(late), top + bar, { ...dash, class: "pm-soft-end" }),
  ];
}

/**
 * @param {PictureRow} row
 * @param {number} top
 * @param {number} bar
 * @param {(gib: number) => number} place
 * @returns {SVGElement[]}
 */
function outlines(row, top, bar, place) {
  return row.parts.map(([, , start, end]) =>
    draw("rect", {
      class: "pm-ghost",
      x: place(start),
      y: top - 4,
      width: Math.max(place(end) - place(start), 0),
      height: bar + 8,
      fill: "none",
      stroke: "currentColor",
      "stroke-dasharray": "3 3",
    }),
  );
}

/**
 * @param {PictureRow} row
 * @param {number} top
 * @param {number} bar
 * @param {(gib: number) => number} place
 * @param {number} width
 * @param {boolean} leaders
 * @returns {SVGElement[]}
 */
function names(row, top, bar, place, width, leaders) {
  const room = width - 2 * SIDE;
  const inner = (/** @type {number} */ gib) => place(gib) - SIDE;
  const most = Math.floor((bar - 6) / LINE);
  return labelled(row.parts, inner, room, leaders, measured, most).flatMap((label) => {
    const { lines, inside, ink } = label;
    const x = label.x + SIDE;
    const from = label.from + SIDE;
    const under = top + bar;
    const first = inside
      ? top + bar / 2 - ((lines.length - 1) * LINE) / 2 + FONT_PIXELS / 3
      : under + 22;
    const texts = lines.map((text, at) =>
      draw(
        "tspan",
        { x, y: first + at * LINE, ...(at === lines.length - 1 ? STRONG : {}) },
        text,
      ),
    );
    // A saved picture is on white; styles have the page's paper.
    /** @type {Record<string, string | number>} */
    const look =
      inside && ink
        ? { fill: ink }
        : { stroke: "#fff", "stroke-width": 4, "paint-order": "stroke" };
    const name = draw("text", { ...look, "text-anchor": "middle" }, ...texts);
    if (inside) return [name];
    const points = `${from},${under} ${from},${under + 3} ${x},${under + 10}`;
    const thread = { points, fill: "none", stroke: "currentColor" };
    return [draw("polyline", { class: "pm-leader", ...thread }), name];
  });
}

const STRONG = { "font-weight": 600 };

/**
 * Writes all words and lines of a picture.
 *
 * @param {Picture} picture
 * @param {PictureMode} mode
 * @param {number} width
 * @param {PictureGhost} ghost
 * @param {string} [id] prefix of ids in the page
 * @returns {SVGElement[]}
 */
export function marks(picture, mode, width, ghost, id = "pm") {
  return picture.groups.flatMap((group, index) => {
    const { top, start, end, bar } = mode.groups[index];
    const scale = (width - 2 * SIDE) / group.end;
    const place = (/** @type {number} */ gib) => SIDE + gib * scale;
    const pitch = mode.title + bar + mode.below;
    const places = edgePlaces(group, place, width);
    const found = group.rows.flatMap((row, at) => {
      const above = start + at * pitch + mode.title;
      const before = ghost?.picture.groups[index]?.rows[at];
      const old = ghost?.picture.groups[index]?.end ?? group.end;
      const placeBefore = (/** @type {number} */ gib) =>
        old <= group.end || gib <= group.end ? place(gib) : width - SIDE;
      return [
        ...softEdge(row, above, bar, place, `${id}-${index}-${at}`),
        ...(before ? outlines(before, above, bar, placeBefore) : []),
        ...(at
          ? group.edges.map((edge) =>
              edgeLine(place(edge.at), above - 6, above + bar + 6, edge.budget),
            )
          : firstEdgeLines(group, places, top, above + bar + 6, place)),
        ...names(row, above, bar, place, width, mode.leaders),
        title(row.title, above - 8, at || index ? "" : (ghost?.text ?? ""), width),
      ];
    });
    return [
      ...edgeLabels(group, places, top),
      ...found,
      ...axis(group, end, place, width),
    ];
  });
}

/** @param {string} text @param {number} y @param {string} change @param {number} width */
function title(text, y, change, width) {
  const node = words("", SIDE, y, { class: "pm-title" });
  node.append(draw("tspan", STRONG, text));
  if (change) {
    const fits = measured(`${text}   ${change}`) + 12 <= width - 2 * SIDE;
    const short = change.replace("KV cache ", "").replace(" at once", "");
    node.append(draw("tspan", { dx: 12, class: "pm-change" }, fits ? change : short));
  }
  return node;
}

/**
 * Places the labels of the edges above the bars; that of the budget keeps off the line of
 * the total where it can.
 *
 * @param {PictureGroup} group
 * @param {(gib: number) => number} place
 * @param {number} width
 * @returns {{ middle: number, half: number }[]}
 */
function edgePlaces({ edges }, place, width) {
  return edges.map(({ at, text, budget }) => {
    const half = measured(text) / 2;
    const beside = place(edges[0].at) - 8 - half;
    const most = budget && beside > SIDE + half ? beside : width - SIDE - half;
    return { middle: Math.max(Math.min(place(at), most), SIDE + half), half };
  });
}

/**
 * @param {PictureGroup} group
 * @param {{ middle: number, half: number }[]} places
 * @param {number} top
 * @returns {SVGElement[]}
 */
function edgeLabels({ edges }, places, top) {
  return edges.map(({ text }, row) => {
    const look = { class: "pm-edge-text", "text-anchor": "middle" };
    const y = top + row * EDGE_PIXELS + FONT_PIXELS;
    return words(text, places[row].middle, y, look);
  });
}

/**
 * Draws the edges across the first bar, each up to the lowest label that it meets.
 *
 * @param {PictureGroup} group
 * @param {{ middle: number, half: number }[]} places of the labels
 * @param {number} top of the labels
 * @param {number} under the bar
 * @param {(gib: number) => number} place
 * @returns {SVGElement[]}
 */
function firstEdgeLines({ edges }, places, top, under, place) {
  return edges.map(({ at, budget }, row) => {
    const x = place(at);
    const met = places.reduce(
      (last, { middle, half }, other) =>
        Math.abs(x - middle) < half + 4 ? Math.max(last, other) : last,
      row,
    );
    const from = top + met * EDGE_PIXELS + FONT_PIXELS + 5;
    return edgeLine(x, from, under, budget);
  });
}

/** @param {number} x @param {number} from @param {number} to @param {boolean} budget */
function edgeLine(x, from, to, budget) {
  const dash = budget ? "8 6" : "none";
  const look = { "stroke-width": 2, "stroke-dasharray": dash };
  return line(x, from, x, to, { class: "pm-edge", ...look });
}

/**
 * @param {PictureGroup} group
 * @param {number} top
 * @param {(gib: number) => number} place
 * @param {number} width
 * @returns {SVGElement[]}
 */
function axis(group, top, place, width) {
  const faint = { "stroke-opacity": 0.35 };
  const scale = ticks(group.end, width).flatMap(({ at, text }) => [
    line(place(at), top, place(at), top + 4, faint),
    words(text, place(at), top + 16, { class: "pm-tick", "text-anchor": "middle" }),
  ]);
  return [
    line(SIDE, top, width - SIDE, top, faint),
    ...scale,
    words(group.unit, width / 2, top + 32, {
      class: "pm-unit",
      "text-anchor": "middle",
    }),
  ];
}
