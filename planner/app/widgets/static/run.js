// Shows how far a start of vLLM is, with its log; tells the kernel that a page looks,
// so that vLLM ends with the last page.

import "./shortcuts.js";

import { setText } from "./change.js";
import { make } from "./make.js";
import { RunLog } from "./run_log.js";

/**
 * @typedef {object} Run
 * @property {string} state
 * @property {string} title
 * @property {string} stage
 * @property {string[]} stages
 * @property {number} position how many of the stages are behind
 * @property {string[]} skipped
 * @property {number} fraction
 * @property {number} seconds
 *
 * @typedef {import("@anywidget/types").AnyModel<Run>} RunModel
 */

const BEAT_MS = 5000;
const TICK_MS = 250;
/** @type {(keyof Run)[]} */
const SHOWN = ["state", "title", "stage", "position", "skipped", "fraction", "seconds"];

/** @param {RunModel} model */
const isOn = (model) => ["running", "stopping"].includes(model.get("state"));

/**
 * Writes seconds as 1:05 or 1:01:05.
 *
 * @param {number} seconds
 */
export function clock(seconds) {
  const whole = Math.floor(Math.max(0, seconds));
  const pad = (/** @type {number} */ number) => String(number).padStart(2, "0");
  const minutes = Math.floor(whole / 60) % 60;
  const hours = Math.floor(whole / 3600);
  return `${hours ? `${hours}:${pad(minutes)}` : minutes}:${pad(whole % 60)}`;
}

/**
 * Marks the stages that are behind, the one that is now, and those to come.
 *
 * @param {RunModel} model
 * @param {HTMLElement} stages
 */
function markStages(model, stages) {
  const names = model.get("stages");
  if (stages.childElementCount !== names.length) {
    stages.replaceChildren(...names.map((name) => make("li", {}, name)));
  }
  const at = model.get("position");
  names.forEach((name, number) => {
    const item = stages.children[number];
    const isNow = number === at && isOn(model);
    const past = model.get("skipped").includes(name) ? "skipped" : "past";
    item.setAttribute("data-is", number < at ? past : isNow ? "now" : "to come");
    if (isNow) item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
  });
}

/** @param {RunModel} model */
function makeHead(model) {
  const title = make("p", { class: "pl-run-title" });
  const stage = make("span", {
    class: "pl-run-stage",
    role: "status",
    "aria-live": "polite",
  });
  const time = make("span", { class: "pl-run-time" });
  const filled = make("div", { class: "pl-run-filled" });
  const bar = make(
    "div",
    {
      class: "pl-run-bar",
      role: "progressbar",
      "aria-label": "Progress of the start",
      "aria-valuemin": 0,
      "aria-valuemax": 100,
    },
    filled,
  );
  const row = make("div", { class: "pl-run-row" }, stage, time);
  const stages = make("ol", {
    class: "pl-run-stages",
    "aria-label": "Stages of the start",
  });
  const box = make("div", { tabindex: -1 }, title, row, bar, stages);
  let since = performance.now();
  const tick = () => {
    const passed = isOn(model) ? (performance.now() - since) / 1000 : 0;
    time.textContent = clock(model.get("seconds") + passed);
  };
  const show = () => {
    since = performance.now();
    const percent = Math.round(100 * model.get("fraction"));
    title.textContent = model.get("title");
    markStages(model, stages);
    stages.hidden = !model.get("position"); // nothing has started yet
    setText(stage, model.get("stage"));
    filled.style.width = `${percent}%`;
    bar.setAttribute("aria-valuenow", String(percent));
    bar.setAttribute("aria-valuetext", `${percent} %, ${model.get("stage")}`);
    tick();
  };
  return { box, show, tick };
}

/**
 * Tells the kernel that this page is there, until it is not.
 *
 * @param {RunModel} model
 * @param {(() => void)[]} undo
 */
function attend(model, undo) {
  const view = `${Math.random()}`.slice(2);
  const say = (/** @type {string} */ kind) => {
    try {
      model.send({ kind, view });
    } catch {
      // the kernel is gone
    }
  };
  const beat = setInterval(() => isOn(model) && say("here"), BEAT_MS);
  const leave = () => say("leaving");
  const back = () => say("here");
  const seen = () => {
    if (!document.hidden && isOn(model)) say("here");
  };
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", back);
  document.addEventListener("visibilitychange", seen);
  undo.push(() => {
    clearInterval(beat);
    window.removeEventListener("pagehide", leave);
    window.removeEventListener("pageshow", back);
    document.removeEventListener("visibilitychange", seen);
    leave();
  });
  say("hello");
}

/** @type {import("@anywidget/types").AnyWidget<Run>} */
export default {
  render({ model, el }) {
    /** @type {(() => void)[]} */
    const undo = [];
    const head = makeHead(model);
    const log = new RunLog();
    el.classList.add("planner-run-progress");
    el.append(head.box, log.box);
    const show = () => {
      el.dataset.state = model.get("state");
      head.show();
    };
    const hear = (/** @type {any} */ content) => {
      if (content.kind === "log") log.add(content);
      if (content.kind === "clear") log.clear();
      // Focus scrolls as well.
      if (content.kind === "seek") head.box.focus();
    };
    for (const name of SHOWN) model.on(`change:${name}`, show);
    model.on("msg:custom", hear);
    const ticking = setInterval(() => isOn(model) && head.tick(), TICK_MS);
    undo.push(() => {
      for (const name of SHOWN) model.off(`change:${name}`, show);
      model.off("msg:custom", hear);
      clearInterval(ticking);
    });
    show();
    attend(model, undo);
    return () => {
      for (const step of undo) step();
    };
  },
};
