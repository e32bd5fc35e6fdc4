// A day at the desk: the learner's settings, the KV cache while visitors come, and a score.

import { button } from "./button.js";
import { newId, setAttribute, setText } from "./change.js";
import { copyText } from "./copy_text.js";
import { Day, whole } from "./day.js";
import { make } from "./make.js";

/**
 * @typedef {import("./day.js").Desk} Desk
 * @typedef {import("./scheduler_tables.js").Block} Block
 */

/** Okabe and Ito's; the squares of a visitor have one, by turns. */
const COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"];
const SHARED = "#7F7F7F";
const MOST_CELLS = 2400;
const CELL = 10; // pixels
const SMALL_CELL = 7;
const NARROW = 500;
const GAP = 1;
const TICK = 100; // milliseconds
const MOST_TOLD = 4;
const SPEEDS = [
  ["slow", 150],
  ["normal", 75],
  ["fast", 20],
]; // seconds on the clock of the wall that a day takes

/** @param {number} number */
const colorOf = (number) => COLORS[(number - 1) % COLORS.length];

/**
 * What a block is drawn as: whose tokens it holds, and whether anybody uses it.
 *
 * @param {Block} block
 */
export function looks({ owners, key }) {
  if (!owners.length && !key) return { fill: "", used: false };
  const whose = key ? key.split(" ")[1] : owners[0];
  return { fill: whose ? colorOf(Number(whose)) : SHARED, used: owners.length > 0 };
}

/**
 * Draws every block as a cell; where there are too many, every second, third and so on.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {Day} day
 */
function draw(canvas, { scheduler, choice }) {
  const { blocks } = scheduler.pool;
  const each = Math.ceil(blocks.length / MOST_CELLS);
  const count = Math.floor(blocks.length / each);
  const width = canvas.clientWidth || NARROW;
  const cell = width < NARROW ? SMALL_CELL : CELL;
  const columns = Math.max(1, Math.floor(width / cell));
  const ratio = window.devicePixelRatio || 1;
  const height = Math.ceil(count / columns) * cell;
  canvas.style.height = `${height}px`;
  canvas.width = columns * cell * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  if (!pen) return each;
  pen.scale(ratio, ratio);
  const ink = getComputedStyle(canvas).color;
  const size = cell - 2 * GAP;
  for (let at = 0; at < count; at += 1) {
    const block = blocks[at * each];
    const { fill, used } = looks(block);
    const x = (at % columns) * cell + GAP;
    const y = Math.floor(at / columns) * cell + GAP;
    pen.beginPath();
    if (fill && choice.rules[block.group].kind !== "full") {
      pen.arc(x + size / 2, y + size / 2, size / 2 - 0.5, 0, 7);
    } else pen.rect(x + 0.5, y + 0.5, size - 1, size - 1);
    pen.globalAlpha = used ? 1 : 0.3;
    if (fill && used) {
      pen.fillStyle = fill;
      pen.fill();
    } else {
      pen.globalAlpha = fill ? 1 : 0.3;
      pen.lineWidth = fill && cell === CELL ? 2 : 1;
      pen.strokeStyle = fill || ink;
      pen.stroke();
    }
  }
  return each;
}

/**
 * @param {string} label
 * @param {[value: string, text: string][]} options
 * @param {string} chosen
 * @param {(value: string) => void} changed
 */
function menu(label, options, chosen, changed) {
  const select = make(
    "select",
    {},
    ...options.map(([value, text]) =>
      make("option", { value, selected: value === chosen }, text),
    ),
  );
  select.addEventListener("change", () => changed(select.value));
  return make("label", { class: "pk-setting" }, make("span", {}, label), select);
}

/**
 * @param {string} label @param {boolean} checked
 * @param {(checked: boolean) => void} changed
 */
function tick(label, checked, changed) {
  const input = make("input", { type: "checkbox", checked });
  input.addEventListener("change", () => changed(input.checked));
  return make("label", { class: "pk-tick" }, input, label);
}

/**
 * @param {Day} day
 * @param {(changes: Partial<Desk["settings"]>) => void} set
 */
function settings({ desk, settings: now }, set) {
  const { choices, lengths, beginnings } = desk;
  const id = newId();
  const length = make("input", {
    id,
    type: "range",
    min: 0,
    max: lengths.length - 1,
    value: lengths.indexOf(now.length),
  });
  const shown = make("output", { for: id });
  const write = () => {
    const tokens = lengths[Number(length.value)];
    const text = `about ${whole(tokens)} tokens`;
    setText(shown, text);
    setAttribute(length, "aria-valuetext", text);
    set({ length: tokens });
  };
  length.addEventListener("input", write);
  write();
  /** @param {"dtype" | "seqs"} name */
  const values = (name) => [...new Set(choices.map((one) => `${one[name]}`))];
  /** @param {string[]} found @returns {[string, string][]} */
  const same = (found) => found.map((value) => [value, value]);
  const hasBoth = new Set(choices.map(({ caching }) => caching)).size > 1;
  const both = (/** @type {number} */ tokens) => (tokens ? whole(tokens) : "nothing");
  return make(
    "div",
    { class: "pk-settings" },
    make(
      "fieldset",
      {},
      make("legend", {}, "Visitors who come from now on"),
      make("label", { for: id, class: "pk-length" }, "Prompt: ", shown),
      length,
      menu(
        "tokens that all begin with",
        beginnings.map((tokens) => [`${tokens}`, both(tokens)]),
        `${now.shared}`,
        (value) => set({ shared: Number(value) }),
      ),
    ),
    make(
      "fieldset",
      {},
      make("legend", {}, "vLLM (a change starts it again)"),
      menu("kv_cache_dtype", same(values("dtype")), now.dtype, (dtype) =>
        set({ dtype }),
      ),
      menu("max_num_seqs", same(values("seqs")), `${now.seqs}`, (seqs) =>
        set({ seqs: Number(seqs) }),
      ),
      ...(hasBoth
        ? [tick("prefix caching", now.caching, (caching) => set({ caching }))]
        : []),
    ),
  );
}

/** A list of figures, each with its name. */
function figures() {
  const names = ["Time", "Served", "Waiting", "Preempted", "Spent"];
  const cells = names.map(() => make("dd"));
  const node = make(
    "dl",
    { class: "pk-figures" },
    ...names.map((name, at) => make("div", {}, make("dt", {}, name), cells[at])),
  );
  /** @param {Day} day */
  const write = (day) => {
    const values = [
      day.time,
      `${day.served} of ${day.count}`,
      `${day.waiting}`,
      `${day.preemptions} ×`,
      day.spent || `${Math.round(day.clock)} s`,
    ];
    values.forEach((value, at) => {
      setText(cells[at], value);
    });
  };
  return { node, write };
}

/** The visitors that hold blocks, or wait for some. */
function queue() {
  const node = make("ul", { class: "pk-queue", "aria-label": "Visitors here" });
  /** @param {Day} day */
  const write = ({ scheduler }) => {
    const { running, waiting, tables } = scheduler;
    const items = [...running, ...waiting].map((one) => {
      const held = tables.reduce((sum, { blocks }) => {
        return sum + (blocks.get(one.name) ?? []).filter(Boolean).length;
      }, 0);
      const done = Math.round((100 * one.computed) / one.total);
      const state =
        one.phase === "running" ? `${whole(held)} blocks, ${done} %` : one.phase;
      const item = make(
        "li",
        { "data-phase": one.phase },
        make("b", {}, one.name),
        state,
      );
      item.style.borderColor = colorOf(Number(one.name));
      return item;
    });
    node.replaceChildren(...items);
  };
  return { node, write };
}

/** @param {string[]} kinds that are drawn */
function legend(kinds) {
  const entries = [
    ["used", COLORS[0], "a visitor's tokens"],
    ["used", SHARED, "a beginning that all share"],
    ["kept", COLORS[0], "free, tokens kept for a while"],
    ["empty", "", "empty"],
  ];
  if (kinds.some((kind) => kind !== "full")) {
    entries.splice(1, 0, [
      "used pk-round",
      COLORS[0],
      "of a window, a chunk or a state",
    ]);
  }
  const items = entries.map(([kind, color, words]) => {
    const square = make("i", { class: `pk-square pk-${kind}` });
    if (color) square.style.color = color;
    return make("li", {}, square, words);
  });
  return make("ul", { class: "pk-legend" }, ...items);
}

/** @param {Day} day @param {number} each blocks for one cell */
function spoken({ scheduler }, each) {
  const { blocks, free } = scheduler.pool;
  const kept = free.filter(({ key }) => key).length;
  const shared = blocks.filter(({ owners }) => owners.length > 1).length;
  return (
    `${whole(scheduler.used)} of ${whole(blocks.length)} blocks in use, ${whole(shared)} ` +
    `of them shared; ${whole(kept)} free ones keep tokens.` +
    (each > 1 ? ` One block in ${each} is drawn.` : "")
  );
}

/** @param {Day} day */
function result(day) {
  const text = make("pre", { class: "pl-plain-command", tabindex: 0 }, day.score);
  const copied = button("Copy");
  copied.addEventListener("click", () => copyText(copied, text));
  return [make("p", { class: "pg-name" }, "The day is over. To share:"), text, copied];
}

/** @type {import("@anywidget/types").AnyWidget<{ desk: Desk }>} */
export default {
  render({ model, el }) {
    const desk = model.get("desk");
    const isStill = window.matchMedia?.("(prefers-reduced-motion: reduce)").matches;
    el.classList.add("planner-living");
    let day = new Day(desk);
    /** @type {ReturnType<typeof setInterval> | undefined} */
    let timer;
    let pace = Number(SPEEDS[1][1]);
    const play = button("Play");
    const step = button("Step");
    const come = button("A visitor comes");
    const again = button("New day");
    const canvas = make("canvas", { class: "pk-cache", role: "img" });
    const where = make("p", { class: "pk-where" });
    const told = make("div", { class: "pk-told", role: "log" });
    const over = make("div", { class: "pk-over", role: "status" });
    const { node: shown, write } = figures();
    const { node: here, write: writeQueue } = queue();
    const place = make("div");
    const show = () => {
      const each = draw(canvas, day);
      const words = spoken(day, each);
      setAttribute(canvas, "aria-label", words);
      setText(where, words);
      write(day);
      writeQueue(day);
      told.append(...day.events.map((text) => make("p", {}, text)));
      while (told.children.length > MOST_TOLD) told.firstChild?.remove();
      day.events = [];
      for (const one of [play, step]) one.disabled = day.isOver;
      come.disabled = day.visitors.length === day.count;
      if (day.isOver && !over.children.length) over.replaceChildren(...result(day));
      if (day.isOver) pause();
    };
    const pause = () => {
      clearInterval(timer);
      timer = undefined;
      setText(play, "Play");
      // What happens while it plays is too much to be spoken.
      setAttribute(told, "aria-live", "polite");
    };
    const run = () => {
      setText(play, "Pause");
      setAttribute(told, "aria-live", "off");
      timer = setInterval(() => {
        day.goOn((desk.seconds / pace) * (TICK / 1000));
        show();
      }, TICK);
    };
    const begin = () => {
      pause();
      const { comeAlone, settings: chosen } = day;
      day = new Day(desk);
      day.comeAlone = comeAlone;
      day.set(chosen);
      day.events = [isStill ? "Press Step." : "Press Play, or Step."];
      over.replaceChildren();
      told.replaceChildren();
      show();
    };
    play.addEventListener("click", () => (timer ? pause() : run()));
    step.addEventListener("click", () => {
      pause();
      day.goToEvent();
      show();
    });
    come.addEventListener("click", () => {
      day.come();
      show();
    });
    again.addEventListener("click", begin);
    place.append(
      settings(day, (changes) => {
        day.set(changes);
        if (canvas.isConnected) show();
      }),
    );
    const speed = menu(
      "speed",
      SPEEDS.map(([name, seconds]) => [`${seconds}`, `${name}`]),
      `${pace}`,
      (value) => {
        pace = Number(value);
      },
    );
    // Who asked for less motion gets steps only.
    play.hidden = speed.hidden = Boolean(isStill);
    const alone = tick("they come by themselves", true, (checked) => {
      day.comeAlone = checked;
    });
    const { cost } = desk;
    const paid = cost
      ? `, and ${cost.currency} ${cost.price} an hour (${cost.source})`
      : "";
    el.append(
      make("p", { class: "pk-words" }, desk.words),
      make("div", { class: "pk-controls" }, play, step, come, again, speed, alone),
      shown,
      canvas,
      where,
      legend(day.choice.rules.map(({ kind }) => kind)),
      make("div", { class: "pk-both" }, place, make("div", {}, here, told)),
      over,
      make(
        "p",
        { class: "pk-words" },
        `${day.count} visitors in ${Math.round(desk.seconds)} seconds of the GPU, as on a ` +
          `day from ${desk.hours.replace(" ", " to ")} o'clock. A step takes at least the ` +
          `reading of weights and cache at the GPU's bandwidth${paid}.`,
      ),
    );
    begin();
    const observer = new ResizeObserver(() => draw(canvas, day));
    observer.observe(el);
    return () => {
      observer.disconnect();
      pause();
    };
  },
};
