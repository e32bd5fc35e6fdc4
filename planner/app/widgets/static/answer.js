// The answer to the controls: verdict, bars, figures, and vLLM's own words.

import { addBar } from "./bar.js";
import { whenConnected } from "./connected.js";
import { make } from "./make.js";
import { fill, part } from "./parts.js";
import { keepPicture } from "./picture.js";

/**
 * @typedef {object} Answered
 * @property {Record<string, string>} parts HTML by name
 * @property {import("./draw.js").Figure} figure
 * @property {string} label
 *
 * @typedef {(() => void)[]} Undo
 */

const BEFORE_CHART = ["alert", "verdict", "stale"];
const AFTER_CHART = ["figures", "error"];
const ACTIONS =
  ".planner-first > .planner-parts, .planner-tab-advice, .planner-tab-gpus, " +
  ".planner-tab-compare, .planner-tab-export";

/**
 * Greys what is not for the controls as they are; nothing of it can be applied or taken.
 *
 * @param {Element} root
 * @param {boolean} isStale
 */
function setStale(root, isStale) {
  root.classList.toggle("is-stale", isStale);
  /** @type {NodeListOf<HTMLElement>} */
  const actions = root.querySelectorAll(ACTIONS);
  for (const node of actions) node.inert = isStale;
}

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
 * @param {Element} verdict
 * @returns {string[]} what was planned, the headline and the sentences of the verdict
 */
function subjectAndVerdict(verdict) {
  const said = [".pl-subject", ".pl-headline", ".pl-sentence"].flatMap((name) =>
    [...verdict.querySelectorAll(name)].map((node) => node.textContent ?? ""),
  );
  const lines = said.map((text) => text.replace(/\s+/g, " ").trim());
  return lines.map((text) => text.replace(/ (vLLM \d)/, " · $1")).filter(Boolean);
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
      if (root) setStale(root, Boolean(parts.stale));
      follow();
      for (const [name, html] of Object.entries(parts)) {
        if (own.has(name) || name === "strip") continue;
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
      keepPicture(
        model,
        chart,
        node,
        () => subjectAndVerdict(part(el, "verdict")),
        undo,
      );
      const explorer = el.closest(".planner-explorer");
      root = explorer;
      if (!explorer) return;
      const bar = addBar(explorer, part(el, "verdict"), undo);
      follow = () => bar(model.get("parts").strip ?? "");
      explorer.addEventListener("planner-place", show);
      undo.push(() => explorer.removeEventListener("planner-place", show));
      show();
    });
    return () => {
      for (const step of undo) step();
    };
  },
};
