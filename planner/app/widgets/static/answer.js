// The answer to the controls: verdict, bars, figures, and vLLM's own words.

import { whenConnected } from "./connected.js";
import { keepDrawn } from "./draw.js";
import { make } from "./make.js";
import { fill, part } from "./parts.js";

/**
 * @typedef {object} Answered
 * @property {Record<string, string>} parts HTML by name
 * @property {import("./draw.js").Figure} figure
 * @property {string} label
 *
 * @typedef {(() => void)[]} Undo
 */

const BEFORE_CHART = ["verdict", "stale"];
const AFTER_CHART = ["figures", "alert", "error"];

/**
 * Takes the first chart, which the app's page has drawn before the controls were there.
 *
 * @returns {HTMLElement | null}
 */
function takeFirstChart() {
  const snapshot = document.querySelector(".planner-snapshot");
  /** @type {HTMLElement | null | undefined} */
  const node = snapshot?.querySelector(".js-plotly-plot");
  snapshot?.remove();
  return node ?? null;
}

/**
 * Adds a bar for a phone, where the controls fill the screen: it says how it stands while
 * the verdict itself is out of sight. What it says is announced there, so it is for the
 * eyes.
 *
 * @param {Element} root
 * @param {Element} verdict
 * @param {Undo} undo gets what takes it away
 * @returns {() => void} what writes it anew
 */
function addBar(root, verdict, undo) {
  const words = make("span");
  const bar = make(
    "div",
    { class: "planner-bar pl-plan", "aria-hidden": "true" },
    words,
  );
  bar.addEventListener("click", () => verdict.scrollIntoView({ block: "start" }));
  root.append(bar);
  const seen = new IntersectionObserver(
    (entries) => {
      const { intersectionRatio } = entries[entries.length - 1];
      bar.classList.toggle("pl-is-needed", intersectionRatio < 0.6);
    },
    { threshold: [0, 0.6] },
  );
  seen.observe(verdict);
  undo.push(
    () => seen.disconnect(),
    () => bar.remove(),
  );
  return () => {
    const said = verdict.querySelector(".pl-verdict");
    /** @param {string} name */
    const text = (name) => said?.querySelector(name)?.textContent?.trim() ?? "";
    bar.className = bar.className.replace(/ pl-(fits|tight|short|refused)/g, "");
    bar.classList.add(...(said?.classList ?? []));
    bar.classList.remove("pl-verdict");
    const margin = text(".pl-margin");
    const missing = margin && bar.classList.contains("pl-short") ? " missing" : "";
    words.textContent = `${text(".pl-headline")} ${margin}${missing}`;
  };
}

/**
 * Lets a screen reader say what changed, and not again what did not.
 *
 * @param {Element} node
 */
function live(node) {
  node.setAttribute("role", "status");
  node.setAttribute("aria-live", "polite");
  node.setAttribute("aria-atomic", "true");
}

/** @type {import("@anywidget/types").AnyWidget<Answered>} */
export default {
  render({ model, el }) {
    /** @type {Undo} */
    const undo = [];
    el.classList.add("planner-answer");
    for (const name of BEFORE_CHART) part(el, name);
    live(part(el, "verdict"));
    const chart = make("div", { class: "planner-bars" });
    el.append(chart);
    for (const name of AFTER_CHART) part(el, name);
    const own = new Set([...BEFORE_CHART, ...AFTER_CHART]);
    /** @type {Element | null} */
    let root = null; // once it is on the page
    let follow = () => {};
    const show = () => {
      const parts = model.get("parts");
      for (const name of own) fill(part(el, name), parts[name] ?? "");
      follow();
      for (const [name, html] of Object.entries(parts)) {
        if (own.has(name)) continue;
        /** @type {HTMLElement | null | undefined} */
        const place = root?.querySelector(`.planner-parts > [data-part="${name}"]`);
        if (place) fill(place, html);
      }
    };
    show();
    // After the chart's `change:figure`: drawing measures, and would first lay out a page
    // that these have changed.
    model.on("change", show);
    undo.push(() => model.off("change", show));
    whenConnected(el, () => {
      const node = takeFirstChart() ?? make("div");
      chart.append(node);
      keepDrawn(model, node, undo);
      const explorer = el.closest(".planner-explorer");
      root = explorer;
      if (!explorer) return;
      follow = addBar(explorer, part(el, "verdict"), undo);
      explorer.addEventListener("planner-place", show);
      undo.push(() => explorer.removeEventListener("planner-place", show));
      show();
    });
    return () => {
      for (const step of undo) step();
    };
  },
};
