// Saves the picture as a file that stands alone: what was planned and the verdict above
// the bars, drawn by plotly for that size, whatever the window's. It needs no network.

import { legend } from "./legend.js";
import { make } from "./make.js";
import { inMode, marks, modeFor } from "./marks.js";
import { draw, FAMILY, words } from "./pen.js";

/**
 * @typedef {import("./marks.js").PictureFigure} PictureFigure
 * @typedef {import("./legend.js").PictureEntry} PictureEntry
 */

const WIDTH = 1280;
const MARGIN = 32;
const SHARPER = 2; // pixels of a PNG for each of the picture's
const INK = "#16202a";
const SUBJECT = { "font-size": 16, "fill-opacity": 0.75 };
const HEADLINE = { "font-size": 26, "font-weight": 650 };
const SENTENCE = { "font-size": 16 };
const LEGEND_COLUMNS = 5;

/**
 * @param {import("./marks.js").Picture} picture
 * @param {number} top
 * @param {number} width
 */
function drawnLegend(picture, top, width) {
  const entries = picture.groups.flatMap(legend);
  return entries.flatMap(({ name, size, fill }, at) => {
    const x = 8 + ((at % LEGEND_COLUMNS) * width) / LEGEND_COLUMNS;
    const y = top + Math.floor(at / LEGEND_COLUMNS) * 22;
    return [
      draw("rect", { x, y: y - 10, width: 12, height: 12, rx: 2, fill }),
      words(`${name} ${size} GiB`, x + 18, y),
    ];
  });
}

/**
 * Draws a figure and what was said of it as one SVG.
 *
 * @param {PictureFigure} figure
 * @param {string[]} said
 * @param {Plotly} Plotly
 * @returns {Promise<{ svg: string, width: number, height: number }>}
 */
export async function alone(figure, said, Plotly) {
  const { picture } = figure;
  const width = WIDTH - 2 * MARGIN;
  const mode = modeFor(picture, width);
  const { data, layout } = inMode(figure, mode);
  const { height } = mode;
  const size = { width, height, autosize: false };
  const url = await Plotly.toImage(
    { data, layout: { ...layout, ...size } },
    { format: "svg", width, height },
  );
  const source = decodeURIComponent(url.slice(url.indexOf(",") + 1));
  const bars = new DOMParser().parseFromString(source, "image/svg+xml").documentElement;
  const looks = [SUBJECT, HEADLINE];
  let y = MARGIN;
  const above = said.map((text, at) => {
    const look = looks[at] ?? SENTENCE;
    y += look["font-size"] * 1.35;
    return words(text, 8, y - MARGIN, look);
  });
  const top = y - MARGIN + 24;
  const group = draw("g", { transform: `translate(0 ${top})` }, bars);
  group.append(...marks(picture, mode, width, null));
  const entries = mode.leaders ? [] : drawnLegend(picture, top + height + 22, width);
  const rows = Math.ceil(entries.length / 2 / LEGEND_COLUMNS);
  const under = top + height + 22 + rows * 22;
  const whole = Math.ceil(under + 2 * MARGIN - 22 + (picture.soft ? 22 : 0));
  const root = draw(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${whole}`,
      width: WIDTH,
      height: whole,
      color: INK,
      fill: "currentColor",
      "font-family": FAMILY,
      "font-size": 12,
    },
    draw("rect", { width: WIDTH, height: whole, fill: "#ffffff" }),
    draw(
      "g",
      { transform: `translate(${MARGIN} ${MARGIN})` },
      ...above,
      group,
      ...entries,
      words(picture.soft, 8, under),
    ),
  );
  return {
    svg: new XMLSerializer().serializeToString(root),
    width: WIDTH,
    height: whole,
  };
}

/**
 * @param {{ svg: string, width: number, height: number }} drawn
 * @returns {Promise<Blob>}
 */
async function asPng({ svg, width, height }) {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = make("canvas", { width: width * SHARPER, height: height * SHARPER });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no PNG"))));
  });
}

/**
 * Names a file after what was planned, such as "Qwen3-32B-on-8-x-H100".
 *
 * @param {string} subject
 */
export function fileName(subject) {
  const [named] = subject.split(" · ");
  const last = named.slice(named.indexOf("/") + 1);
  return last.replace(/[^\w.]+/g, "-").replace(/^[-.]+|[-.]+$/g, "") || "plan";
}

/**
 * @param {string} format "PNG" or "SVG"
 * @param {PictureFigure} figure
 * @param {string[]} said subject, headline and sentences
 * @param {Plotly} Plotly
 */
export async function saveAs(format, figure, said, Plotly) {
  const drawn = await alone(figure, said, Plotly);
  const blob =
    format === "PNG"
      ? await asPng(drawn)
      : new Blob([drawn.svg], { type: "image/svg+xml" });
  const href = URL.createObjectURL(blob);
  const download = `${fileName(said[0] ?? "")}.${format.toLowerCase()}`;
  make("a", { href, download }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}
