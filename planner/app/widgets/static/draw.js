// Finds plotly.js, and draws a figure that is given as plotly's JSON.

import { DrawnBars, looksOf } from "./bars.js";
import { make } from "./make.js";

/**
 * @typedef {{ data: object[], layout: { height?: number } }} Figure
 * @typedef {{ figure: Figure, label: string }} Drawn what a chart's model holds
 * @typedef {import("@anywidget/types").AnyModel<Drawn>} DrawnModel
 *
 * @typedef {object} Dress what fits a figure to a width, and writes over it
 * @property {(figure: any, width: number) => Figure} fit
 * @property {(figure: any, width: number) => void} write
 */

const CATCH_UP_MS = 400;
const CONFIG = { displayModeBar: false, responsive: false };

/**
 * @param {HTMLElement} script
 * @returns {Promise<Plotly>}
 */
function fromPage(script) {
  return new Promise((resolve, reject) => {
    if (window.Plotly) return resolve(window.Plotly);
    if (script.dataset.failed) return reject(new Error("plotly.js was not served"));
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", reject);
  });
}

/**
 * @param {DrawnModel} model
 * @returns {Promise<Plotly>}
 */
function fromKernel(model) {
  return new Promise((resolve, reject) => {
    model.on("msg:custom", (content, buffers) => {
      if (content !== "plotly.js" || !buffers?.length) return;
      const [bytes] = /** @type {DataView<ArrayBuffer>[]} */ (buffers);
      const source = new Blob([bytes], { type: "text/javascript" });
      const script = make("script", { src: URL.createObjectURL(source) });
      script.onload = () => resolve(window.Plotly);
      script.onerror = reject;
      document.head.append(script);
    });
    model.send("plotly.js");
  });
}

/** @param {DrawnModel} model */
function loadPlotly(model) {
  if (window.Plotly) return Promise.resolve(window.Plotly);
  const script = document.getElementById("planner-plotly");
  if (!script) return fromKernel(model);
  return fromPage(script).catch(() => fromKernel(model));
}

/**
 * Draws the model's `figure` into a node, now and whenever it changes.
 *
 * @param {DrawnModel} model
 * @param {HTMLElement} node
 * @param {(() => void)[]} undo gets what ends it
 * @param {Dress | null} [dress]
 */
export async function keepDrawn(model, node, undo, dress = null) {
  node.classList.add("planner-chart");
  node.setAttribute("role", "img");
  node.style.height = `${model.get("figure").layout?.height ?? 160}px`;
  const name = () => node.setAttribute("aria-label", model.get("label"));
  name();
  model.on("change:label", name);
  undo.push(() => model.off("change:label", name));

  const Plotly = await loadPlotly(model);
  // Given to plotly, and asked once: each answer costs a layout of the page.
  let width = node.clientWidth;
  const bars = new DrawnBars(node);
  /** @type {any} */
  let moved = null; // what is drawn, but not by plotly
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @param {any} figure */
  const drawWhole = (figure) => {
    const { data, layout } = figure;
    const looks = looksOf(figure);
    clearTimeout(timer);
    moved = null;
    node.style.height = `${layout.height}px`;
    Plotly.react(node, data, { ...layout, width, autosize: false }, CONFIG);
    bars.drawn(figure, width, looks);
  };
  // plotly answers the pointer, with what it has drawn itself.
  const catchUp = () => moved && drawWhole(moved);
  const draw = () => {
    if (!width) return; // hidden: the observer below tells when it is not
    const figure = model.get("figure");
    const fitted = dress ? dress.fit(figure, width) : figure;
    if (!node.matches(":hover") && bars.move(fitted, width)) {
      moved = fitted;
      clearTimeout(timer);
      timer = setTimeout(catchUp, CATCH_UP_MS);
    } else drawWhole(fitted);
    dress?.write(figure, width);
  };
  node.addEventListener("pointerover", catchUp, true);
  draw();
  model.on("change:figure", draw);
  const resized = new ResizeObserver((entries) => {
    const now = entries[entries.length - 1].contentRect.width;
    if (now === width) return;
    width = now;
    draw();
  });
  resized.observe(node);
  undo.push(
    () => clearTimeout(timer),
    () => resized.disconnect(),
    () => model.off("change:figure", draw),
  );
}
