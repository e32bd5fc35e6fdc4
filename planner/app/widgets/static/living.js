// The living KV cache: every step was computed before, so that it can be played, paused
// and stepped through without a kernel.

import { setText } from "./change.js";
import { make } from "./make.js";

/**
 * @typedef {[content: string, owners: string, filled: number, mark: string]} LivingBlock
 *   whose tokens they are, with none for a shared prefix; who uses it; its filled share;
 *   the mark of its group of layers
 * @typedef {[phase: string, tokens: number, total: number, preemptions: number]} Request
 * @typedef {{ blocks: LivingBlock[], requests: Request[], used: number,
 *   events: string[] }} LivingStep
 *
 * @typedef {object} Living
 * @property {string} words
 * @property {string[]} names
 * @property {[mark: string, words: string][]} kinds of groups, but for the common one
 * @property {LivingStep[]} steps
 */

/** Okabe and Ito's, with the colour of text that is legible on each. */
const COLORS = [
  ["#0072B2", "#fff"],
  ["#E69F00", "#000"],
  ["#009E73", "#000"],
  ["#CC79A7", "#000"],
  ["#56B4E9", "#000"],
  ["#F0E442", "#000"],
];
const SHARED = ["#486060", "#fff"];
const SPEEDS = [
  ["slow", 2400],
  ["normal", 1200],
  ["fast", 500],
];
const FORMAT = new Intl.NumberFormat("en");

/** @param {Living["names"]} names @param {string} name */
const colorsOf = (names, name) =>
  name ? COLORS[names.indexOf(name) % COLORS.length] : SHARED;

/**
 * @param {LivingBlock} block
 * @param {string[]} names
 */
export function looks([content, owners, filled, mark], names) {
  if (!filled) return { kind: "empty", text: "", fill: "", ink: "", filled: 0 };
  const [fill, ink] = colorsOf(names, content);
  const kind = `${owners ? "used" : "kept"}${mark ? ` pk-${mark}` : ""}`;
  return { kind, text: `${content || "S"}${mark}`, fill, ink, filled };
}

/**
 * Counts the squares of a request, by groups of layers.
 *
 * @param {LivingBlock[]} blocks
 * @param {string} name
 */
export function held(blocks, name) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const [, owners, , mark] of blocks) {
    if (owners.includes(name)) counts[mark] = (counts[mark] ?? 0) + 1;
  }
  const parts = Object.keys(counts).sort();
  return parts.map((mark) => `${counts[mark]}${mark && ` ${mark}`}`).join(" + ");
}

/**
 * Says what the squares show, for those who do not see them.
 *
 * @param {LivingStep} step
 * @param {string[]} names
 */
export function spokenStep({ blocks, used }, names) {
  const shared = blocks.filter(([, owners]) => owners.length > 1).length;
  const each = names
    .map((name) => [name, blocks.filter(([, owners]) => owners === name).length])
    .filter(([, count]) => count)
    .map(([name, count]) => `${name} alone ${count}`);
  const kept = blocks.filter(([, owners, filled]) => !owners && filled).length;
  const parts = [...each, `shared ${shared}`, `free with kept tokens ${kept}`];
  return `${used} of ${blocks.length} squares in use: ${parts.join(", ")}.`;
}

/** @param {string} text @param {string} [title] */
const button = (text, title) =>
  make("button", { type: "button", class: "pp-button", title }, text);

/** @param {Living["kinds"]} kinds */
function legend(kinds) {
  const entries = [
    ["used", "A", "a request's tokens", COLORS[0]],
    ["used", "S", "the shared beginning", SHARED],
    ...kinds.map(([mark, words]) => [`used pk-${mark}`, `A${mark}`, words, COLORS[0]]),
    ["kept", "A", "free, tokens kept for a while", COLORS[0]],
    ["empty", "", "empty", ["", ""]],
  ];
  return make(
    "ul",
    { class: "pk-legend" },
    ...entries.map(([kind, text, words, [fill, ink]]) => {
      const square = make("span", { class: `pk-square pk-${kind}` }, String(text));
      paint(square, fill, ink, kind === "empty" ? 0 : 1);
      return make("li", {}, square, String(words));
    }),
  );
}

/** @param {HTMLElement} node @param {string} fill @param {string} ink @param {number} filled */
function paint(node, fill, ink, filled) {
  node.style.setProperty("--pk-fill", fill || "transparent");
  node.style.setProperty("--pk-ink", ink || "inherit");
  node.style.setProperty("--pk-rest", ink === "#fff" ? "#000" : "#fff");
  node.style.setProperty("--pk-filled", `${filled * 100}%`);
}

/** @param {Living["names"]} names */
function requestTable(names) {
  const titles = ["Request", "State", "Tokens in the cache", "Squares", "Preempted"];
  const rows = names.map((name) => {
    const cells = titles.slice(1).map(() => make("td"));
    return { cells, row: make("tr", {}, make("th", { scope: "row" }, name), ...cells) };
  });
  const table = make(
    "table",
    { class: "pl-lines pk-requests" },
    make(
      "thead",
      {},
      make("tr", {}, ...titles.map((title) => make("th", { scope: "col" }, title))),
    ),
    make("tbody", {}, ...rows.map(({ row }) => row)),
  );
  /** @param {LivingStep} step */
  const write = ({ requests, blocks }) => {
    requests.forEach(([phase, tokens, total, preemptions], at) => {
      const [state, computed, squares, times] = rows[at].cells;
      rows[at].row.dataset.phase = phase;
      setText(state, phase);
      setText(computed, `${FORMAT.format(tokens)} of ${FORMAT.format(total)}`);
      setText(squares, held(blocks, names[at]));
      setText(times, preemptions ? `${preemptions} x` : "");
    });
  };
  return { table, write };
}

function controls() {
  const play = button("Play");
  const step = button("Step");
  const back = button("Back");
  const reset = button("Reset");
  const options = SPEEDS.map(([name, pause]) =>
    make("option", { value: pause, selected: name === "normal" }, String(name)),
  );
  const speed = make("select", {}, ...options);
  const speedLabel = make("label", { class: "pk-speed" }, "Speed ", speed);
  const where = make("span", { class: "pk-where" });
  const row = make("div", { class: "pk-controls", role: "group" });
  row.setAttribute("aria-label", "Steps of the KV cache");
  row.append(play, step, back, reset, speedLabel, where);
  return { play, step, back, reset, speed, speedLabel, where, row };
}

/** @type {import("@anywidget/types").AnyWidget<Living>} */
export default {
  render({ model, el }) {
    const names = model.get("names");
    const steps = model.get("steps");
    const last = steps.length - 1;
    const isStill = window.matchMedia?.("(prefers-reduced-motion: reduce)").matches;
    el.classList.add("planner-living");
    const squares = steps[0].blocks.map(() => make("span"));
    const cache = make("div", { class: "pk-cache", role: "img" }, ...squares);
    const told = make("div", { class: "pk-told", role: "log", "aria-live": "polite" });
    const { table, write } = requestTable(names);
    const parts = controls();
    const aside = make("div", { class: "pk-aside" }, told, table);
    const main = make("div", { class: "pk-main" }, cache, legend(model.get("kinds")));
    el.append(
      make("p", { class: "pk-words" }, model.get("words")),
      parts.row,
      make("div", { class: "pk-both" }, main, aside),
    );
    let at = 0;
    /** @type {ReturnType<typeof setInterval> | undefined} */
    let timer;
    const show = () => {
      const step = steps[at];
      step.blocks.forEach((block, index) => {
        const { kind, text, fill, ink, filled } = looks(block, names);
        squares[index].className = `pk-square pk-${kind}`;
        setText(squares[index], text);
        paint(squares[index], fill, ink, filled);
      });
      cache.setAttribute("aria-label", spokenStep(step, names));
      const first = isStill ? "Press Step." : "Press Play, or Step.";
      const quiet = at ? "The answers grow." : first;
      const said = step.events.length ? step.events : [quiet];
      told.replaceChildren(...said.map((text) => make("p", {}, text)));
      write(step);
      const used = `${step.used} of ${step.blocks.length} squares in use`;
      setText(parts.where, `Step ${at} of ${last} · ${used}`);
      parts.step.disabled = at === last;
      parts.back.disabled = !at;
    };
    const pause = () => {
      clearInterval(timer);
      timer = undefined;
      setText(parts.play, "Play");
    };
    /** @param {number} place */
    const go = (place) => {
      at = Math.max(0, Math.min(place, last));
      show();
      if (at === last) pause();
    };
    const play = () => {
      clearInterval(timer);
      if (at === last) go(0);
      setText(parts.play, "Pause");
      timer = setInterval(() => go(at + 1), Number(parts.speed.value));
    };
    parts.play.addEventListener("click", () => (timer ? pause() : play()));
    parts.speed.addEventListener("change", () => timer && play());
    for (const [node, by] of /** @type {[HTMLElement, number][]} */ ([
      [parts.step, 1],
      [parts.back, -1],
      [parts.reset, -steps.length],
    ])) {
      node.addEventListener("click", () => {
        pause();
        go(at + by);
      });
    }
    // Who asked for less motion gets steps only.
    parts.play.hidden = Boolean(isStill);
    parts.speedLabel.hidden = Boolean(isStill);
    show();
    return pause;
  },
};
