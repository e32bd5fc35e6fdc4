import assert from "node:assert/strict";
import { test } from "node:test";

import "./page.js";

import film, { outline, taken } from "#static/film.js";
import { FakeModel, find, place, render } from "./page.js";

const FILM = {
  words: "a model on an L4",
  gpu: "L4",
  draw: true,
  axis: "in the order of the start",
  total: 20 * 1024,
  budget: [19 * 1024, 18 * 1024],
  uses: [
    ["weights", "#0072B2"],
    ["KV cache", "#009E73"],
  ],
  frames: [
    [0, 0, 0],
    [500, 10 * 1024, 0],
    [1000, 10 * 1024, 8 * 1024],
  ],
  seconds: [0, 1.5, 3],
  moments: [
    [0, "before", "Nothing is there."],
    [1, "loaded", "The weights are there."],
    [2, "ready", "The cache as well."],
  ],
  lines: [
    [1, "Model loading took 10 GiB"],
    [2, "GPU KV cache size: 8"],
  ],
  bar: { sizes: [10 * 1024, 7 * 1024], words: "The planner's bar." },
};

/** @param {Partial<typeof FILM>} [changes] */
function shown(changes = {}) {
  const el = place();
  render(film, new FakeModel({ film: { ...FILM, ...changes } }), el);
  return el;
}

/** @param {Element} el @param {string} text */
const press = (el, text) =>
  [...el.querySelectorAll("button")].find((one) => one.textContent === text)?.click();

/** @param {Element} el @param {string} key */
const key = (el, key) => el.dispatchEvent(new KeyboardEvent("keydown", { key }));

test("an area has the steps of its use, and those below it back", () => {
  assert.equal(
    outline(FILM.frames, 1, FILM.total),
    "M0,1000.0L500,1000.0L500,500.0L1000,500.0L1000,100.0L1000,100.0" +
      "L1000,500.0L1000,500.0L1000,500.0L500,500.0L500,1000.0L0,1000.0Z",
  );
  assert.equal(taken(FILM.frames[2]), 18 * 1024);
});

test("nothing is seen of the start before the learner asks for it", () => {
  const el = shown();
  assert.equal(find(el, "rect").getAttribute("width"), "0");
  assert.equal(el.querySelector(".pf-caption"), null);
  assert.equal(find(el, ".pf-bar").hidden, true);
  assert.equal(el.querySelectorAll("[role=slider]").length, 3);
});

test("points move by keys, within the card, and say where they are", () => {
  const el = shown();
  const [first] = el.querySelectorAll("[role=slider]");
  key(first, "ArrowUp");
  assert.equal(first.getAttribute("aria-valuetext"), "10.50 GiB");
  key(first, "End");
  assert.equal(first.getAttribute("aria-valuenow"), "20.00");
  key(first, "Home");
  key(first, "PageDown");
  assert.equal(first.getAttribute("aria-valuetext"), "0.00 GiB");
  assert.match(
    find(el, "polyline").getAttribute("points"),
    /^0,1000 500,500 1000,500$/,
  );
});

test("the film steps by moments, with its caption and the log's lines", () => {
  const el = shown();
  press(el, "Show");
  press(el, "Pause");
  press(el, "Next moment");
  assert.equal(find(el, ".pf-caption").textContent, "2. The weights are there.");
  assert.equal(find(el, "[aria-current]").textContent, "Model loading took 10 GiB");
  assert.equal(find(el, ".pk-where").textContent, "10.00 GiB taken · 1.5 s");
  press(el, "Back");
  assert.equal(find(el, ".pf-caption").textContent, "1. Nothing is there.");
  assert.equal(el.querySelector("[aria-current]"), null);
});

test("at the end the planner's bar is there, with what the learner drew", () => {
  const el = shown();
  key(el.querySelectorAll("[role=slider]")[1], "PageUp");
  press(el, "Show");
  press(el, "Next moment");
  press(el, "Next moment");
  assert.equal(find(el, ".pf-bar").hidden, false);
  const [planned, yours] = el.querySelectorAll(".pf-result table");
  assert.match(planned.textContent ?? "", /KV cache8\.00 GiB7\.00 GiB/);
  assert.match(yours.textContent ?? "", /loaded14\.00 GiB10\.00 GiB/);
  assert.notEqual(el.querySelector("polyline"), null);
});

test("who draws nothing has no line, and the film can begin at once", () => {
  const el = shown({ draw: false });
  assert.equal(el.querySelector("polyline"), null);
  const scrub = find(el, "input[type=range]");
  scrub.value = "2";
  scrub.dispatchEvent(new Event("input"));
  assert.equal(scrub.getAttribute("aria-valuetext"), "ready: 18.00 GiB taken");
  assert.equal(el.querySelectorAll(".pf-result table").length, 1);
  assert.match(
    find(el, "details").textContent,
    /loaded10\.00 GiBThe weights are there\./,
  );
});
