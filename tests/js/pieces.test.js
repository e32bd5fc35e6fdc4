import assert from "node:assert/strict";
import { test } from "node:test";

import "./page.js";

import { alone } from "#static/alone.js";
import { Day } from "#static/day.js";
import debug from "#static/debug.js";
import guess from "#static/guess.js";
import { points, Sizes } from "#static/guess_bar.js";
import living from "#static/living.js";
import slide from "#static/slide.js";
import { FakeModel, find, place, render } from "./page.js";

/** @param {string} value @param {number} gib */
const frame = (value, gib) => ({
  value,
  picture: {
    groups: [
      {
        unit: "GiB per GPU",
        end: 24,
        edges: [{ at: 20, text: "vLLM may use 20.00 GiB", budget: true }],
        rows: [
          {
            title: "L4",
            parts: [
              ["weights", "15.00", 0, 15, "#0072B2", "#FFFFFF"],
              ["KV cache", `${gib}.00`, 15, 15 + gib, "#009E73", "#000000"],
            ],
            soft: null,
          },
        ],
      },
    ],
    modes: [
      {
        leaders: false,
        title: 22,
        below: 8,
        height: 188,
        groups: [{ top: 0, start: 36, end: 150, bar: 84 }],
      },
    ],
    soft: "",
    plan: { of: "a model", kv_cache_bytes: gib * 2 ** 30, requests: gib },
  },
  spoken: 0,
  verdict: gib,
  figures: 0,
  error: 0,
  lines: [["KV cache", `${gib}.00 GiB`, 0]],
});

const SLIDE = {
  vary: "max_model_len",
  start: 1,
  frames: [frame("4,096", 1), frame("8,192", 2)],
  texts: ["<b>text</b>", "<p>one</p>", "<p>two</p>"],
};

test("a slider starts where it should and says the value of each step", () => {
  const { el } = render(slide, new FakeModel(SLIDE));
  const input = find(el, "input");
  assert.equal(input.value, "1");
  assert.equal(input.getAttribute("aria-valuetext"), "8,192");
  assert.equal(find(el, "label").textContent, "max_model_len");
  assert.equal(find(el, "[role=status]").textContent, "two");
  input.value = "0";
  input.dispatchEvent(new Event("input"));
  assert.equal(find(el, "output").textContent, "4,096");
  assert.equal(find(el, "[role=status]").textContent, "one");
  assert.equal(find(el, "tbody td").textContent, "1.00 GiB");
});

test("arithmetic is text, never markup", () => {
  const { el } = render(slide, new FakeModel(SLIDE));
  assert.equal(find(el, ".pl-why").textContent, "<b>text</b>");
});

test("a piece finds its state beside it and replaces what stands for it", () => {
  const whole = place();
  whole.innerHTML =
    '<div class="planner-piece">a table</div><script type="application/json"></script>';
  const script = document.createElement("script");
  find(whole, "script").textContent = JSON.stringify({ count: 3 });
  whole.append(script);
  const counts = {
    /** @param {any} given */
    render: ({ model, el }) => el.append(String(model.get("count"))),
  };
  alone(counts, script);
  assert.equal(find(whole, ".planner-piece").textContent, "3");
});

/** @param {number} seqs @param {string} dtype @param {number} blocks */
const choice = (seqs, dtype = "auto", blocks = 40) => {
  const rules = [{ kind: "full", size: 16, kept: 0, reused: false, saved: false }];
  const rest = { caching: true, batched: 512, size: "1 MiB", seconds: [0.1, 0, 0.001] };
  return { seqs, dtype, blocks, rules, ...rest };
};
/**
 * Six visitors of about 128 + 64 tokens, in 40 blocks of 16.
 *
 * @type {any}
 */
const DESK = {
  words: "a model on L4: 40 blocks",
  subject: "a model on L4",
  longest: 512,
  arrivals: [0, 0.01, 0.02, 0.03, 0.04, 0.05],
  seconds: 60,
  hours: "9 18",
  cost: { price: 3.6, currency: "USD", source: "a list" },
  lengths: [64, 128, 256],
  beginnings: [0, 64],
  answer: 64,
  choices: [choice(8), choice(2), choice(8, "fp8", 80)],
  settings: { dtype: "auto", seqs: 8, caching: true, length: 128, shared: 0 },
};

/** @param {(day: Day) => void} [prepare] */
const dayOf = (prepare) => {
  const day = new Day(DESK);
  prepare?.(day);
  while (!day.isOver) day.goOn(1);
  return day;
};

test("a day in a small cache has preemptions; with fp8, or fewer at once, none", () => {
  const small = dayOf();
  const fp8 = dayOf((day) => day.set({ dtype: "fp8" }));
  const few = dayOf((day) => day.set({ seqs: 2 }));
  assert.ok(small.preemptions > 0);
  assert.ok(small.again > 0);
  assert.deepEqual([fp8.preemptions, few.preemptions], [0, 0]);
  assert.ok(few.clock > small.clock, `${few.clock} ${small.clock}`);
  assert.match(small.score, /^A day at the desk: 6 visitors · \d+ preemptions/);
  assert.ok(small.score.includes(`USD ${((3.6 * small.clock) / 3600).toFixed(4)}`));
});

test("another argument starts vLLM again, and whoever was there asks again", () => {
  const day = new Day(DESK);
  day.goOn(4);
  const here = day.visitors.length;
  const held = day.scheduler.running.reduce((sum, { computed }) => sum + computed, 0);
  const { again } = day;
  day.set({ dtype: "fp8" });
  assert.equal(day.scheduler.used, 0);
  assert.equal(day.scheduler.waiting.length, here);
  assert.equal(day.again, again + held);
  day.set({ dtype: "int4" });
  assert.equal(day.settings.dtype, "fp8");
  assert.match(day.events.at(-1) ?? "", /does not start/);
  day.set({ length: 256 });
  while (!day.isOver) day.goOn(1);
  assert.match(day.score, /1 restart ·/);
});

test("visitors come by the day's curve or by a click, with what is set then", () => {
  const day = new Day(DESK);
  day.comeAlone = false;
  day.goOn(5);
  assert.equal(day.visitors.length, 0);
  day.set({ length: 256, shared: 64 });
  day.come();
  day.goToEvent();
  assert.match(day.events.join(" "), /^1 starts/);
  assert.equal(day.visitors[0].one.shared, 64);
  assert.ok(day.visitors[0].one.prompt > 128);
  assert.match(day.time, /^9:\d\d$/);
});

/** @param {ParentNode} el @param {string} text */
const pressed = (el, text) => {
  const buttons = [...el.querySelectorAll("button")];
  const button = buttons.find((one) => one.textContent === text);
  assert.ok(button, text);
  button.click();
};

test("a step goes to the next event and tells it", () => {
  const { el, remove } = render(living, new FakeModel({ desk: DESK }));
  assert.match(find(el, "[role=log]").textContent, /Press Play/);
  pressed(el, "Step");
  assert.match(find(el, "[role=log]").textContent, /1 comes with \d+ tokens/);
  pressed(el, "A visitor comes");
  assert.equal(el.querySelectorAll(".pk-queue li").length, 2);
  assert.match(
    find(el, "[role=img]").getAttribute("aria-label"),
    /of 40 blocks in use/,
  );
  remove();
});

test("it plays, pauses and ends with a score to share", (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  const { el, remove } = render(living, new FakeModel({ desk: DESK }));
  pressed(el, "Play");
  pressed(el, "Pause");
  context.mock.timers.tick(5000);
  assert.match(find(el, ".pk-figures").textContent, /^Time9:00Served0 of 6/);
  pressed(el, "Play");
  context.mock.timers.tick(200_000);
  assert.match(find(el, ".pk-figures").textContent, /Served6 of 6/);
  assert.match(find(el, ".pk-over pre").textContent, /^A day at the desk: 6 visitors/);
  pressed(el, "New day");
  assert.match(find(el, ".pk-figures").textContent, /Served0 of 6/);
  assert.equal(el.querySelector(".pk-over pre"), null);
  remove();
});

test("settings are kept for a new day", () => {
  const { el, remove } = render(living, new FakeModel({ desk: DESK }));
  const [dtype] = [...el.querySelectorAll("select")].filter(
    ({ value }) => value === "auto",
  );
  dtype.value = "fp8";
  dtype.dispatchEvent(new Event("change"));
  pressed(el, "New day");
  assert.match(find(el, "[role=img]").getAttribute("aria-label"), /of 80 blocks/);
  remove();
});

test("who asked for less motion gets steps only", () => {
  const { matchMedia } = window;
  window.matchMedia = () => /** @type {any} */ ({ matches: true });
  const { el, remove } = render(living, new FakeModel({ desk: DESK }));
  window.matchMedia = matchMedia;
  assert.ok(find(el, "button").hidden);
  assert.match(find(el, "[role=log]").textContent, /Press Step/);
  remove();
});

/** @param {string} name @param {number} size */
const part = (name, size) => ({ name, size, why: ["1 + 1"], fill: "#fff", ink: "" });
const ROUND = {
  title: "Guess the bar of a day",
  question: "where does the memory go?",
  subject: "a model on L4",
  total: 20,
  parts: [part("weights", 10), part("KV cache", 8), part("outside", 2)],
  command: "vllm serve a/model",
};
const GUESS = { rounds: [ROUND, { ...ROUND, title: "Another" }] };

test("the KV cache is what the other parts leave", () => {
  const sizes = new Sizes(ROUND);
  assert.deepEqual(sizes.all, [2, 16, 2]);
  sizes.set(0, 15);
  assert.deepEqual(sizes.all, [15, 3, 2]);
  sizes.set(0, 40);
  assert.deepEqual(sizes.all, [18, 0, 2]);
  sizes.set(0, -1);
  assert.deepEqual(sizes.all, [0, 18, 2]);
});

test("points are 100 minus the differences as a percentage, as Python has them", () => {
  assert.equal(points([10, 8, 2], [10, 8, 2], 20), 100);
  assert.equal(points([12, 6, 2], [10, 8, 2], 20), 80);
  assert.equal(points([0, 20, 0], [20, 0, 0], 20), 0);
});

test("edges move by keys and numbers, and the score is shown with what to share", () => {
  const { el } = render(guess, new FakeModel(GUESS));
  const edges = [...el.querySelectorAll("[role=slider]")];
  assert.deepEqual(
    edges.map((edge) => edge.getAttribute("aria-label")),
    ["weights", "outside"],
  );
  for (const key of ["PageUp", "ArrowRight", "Tab"]) {
    edges[0].dispatchEvent(new KeyboardEvent("keydown", { key }));
  }
  assert.equal(edges[0].getAttribute("aria-valuetext"), "3.10 GiB");
  const input = find(el, "input");
  assert.equal(input.value, "3.10");
  input.value = "12";
  input.dispatchEvent(new Event("change"));
  assert.equal(find(el, "output").textContent, "6.00");
  pressed(el, "Show");
  assert.match(find(el, "[role=status]").textContent, /^80 of 100/);
  const text = find(el, ".pg-details > pre").textContent;
  assert.match(text, /: 80 of 100\na model on L4\nweights \+2.00 GiB/);
  pressed(el, "Next");
  assert.equal(find(el, ".pg-title").textContent, "Another");
  assert.equal(find(el, "[role=status]").textContent, "");
});

const DEBUG = {
  heading: "Start 1",
  command: "vllm serve a/model",
  error: "ValueError: <b>",
  credit: "Source: an issue",
  causes: [
    ["too full", "", true],
    ["too long", "That one names a length.", false],
  ],
  remedies: [
    ["less", "It grows.", false],
    ["more", "It is what is left.", true],
  ],
  explanation: "<p>computed</p>",
};

test("a start that failed is explained once cause and remedy are right", () => {
  const { el } = render(debug, new FakeModel(DEBUG));
  const inputs = /** @type {HTMLInputElement[]} */ ([...el.querySelectorAll("input")]);
  assert.equal(find(el, "pre[aria-label=Error]").textContent, DEBUG.error);
  pressed(el, "Check");
  assert.match(find(el, "[role=status]").textContent, /not chosen yet/);
  inputs[1].checked = true;
  inputs[3].checked = true;
  pressed(el, "Check");
  assert.match(find(el, "[role=status]").textContent, /✘ Cause.*names a length/);
  assert.match(find(el, "[role=status]").textContent, /✔ Remedy: right. It is what/);
  assert.equal(el.querySelector(".pd-said"), null);
  inputs[1].checked = false;
  inputs[0].checked = true;
  pressed(el, "Check");
  assert.equal(find(el, ".pd-said").textContent, "computed");
});
