// Shows the first plan before the controls are alive: Voila needs a second to start them.
// The app's page loads it by itself, with what it imports.

import { writeLegend } from "./legend.js";
import { make } from "./make.js";
import { inMode, marks, modeFor } from "./marks.js";
import { draw } from "./pen.js";

(() => {
  document.getElementById("rendered_cells")?.setAttribute("role", "main");
  // A link opens another plan than the one that was drawn beforehand.
  if (window.location.search.length > 1) return;
  const cells = 'script[type="application/vnd.voila.cell-output+json"]';
  const config = { displayModeBar: false, responsive: false };

  /** @param {Element} place where a chart goes; its figure comes next */
  const show = (place) => {
    /** @type {import("./marks.js").PictureFigure} */
    const figure = JSON.parse(place.nextElementSibling?.textContent ?? "");
    const { picture } = figure;
    const node = make("div", { class: "planner-chart" });
    const over = draw("svg", { class: "planner-marks", "aria-hidden": "true" });
    const box = make("div", { class: "planner-picture" }, node);
    box.append(over);
    const named = make("div", { class: "planner-legend", "aria-hidden": "true" });
    const soft = make("p", { class: "planner-soft" }, picture.soft);
    place.append(box, named, make("div", { class: "planner-picture-foot" }, soft));
    const width = box.clientWidth;
    const mode = modeFor(picture, width);
    const { data, layout } = inMode(figure, mode);
    node.style.height = `${mode.height}px`;
    over.setAttribute("viewBox", `0 0 ${width} ${mode.height}`);
    writeLegend(named, picture, !mode.leaders);
    const now = () => {
      if (!node.isConnected) return;
      const size = { width, autosize: false };
      window.Plotly.newPlot(node, data, { ...layout, ...size }, config);
      over.append(...marks(picture, mode, width, null, "pm-first"));
    };
    if (window.Plotly) now();
    else document.getElementById("planner-plotly")?.addEventListener("load", now);
  };

  for (const output of document.querySelectorAll(cells)) {
    const html = JSON.parse(output.textContent ?? "").data?.["text/html"] ?? "";
    if (!html.includes("planner-snapshot")) continue;
    output.insertAdjacentHTML("beforebegin", html);
    const place = document.querySelector(".planner-first-chart");
    if (place) show(place);
  }
})();
