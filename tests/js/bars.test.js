import assert from "node:assert/strict";
import { test } from "node:test";

import "./page.js";

import { DrawnBars, looksOf, spansOf } from "#static/bars.js";

const WIDTH = 116; // 100 pixels between the margins, for 10 GiB

/**
 * @param {number[]} x
 * @param {Record<string, unknown>} [more]
 */
function figure(x, more = {}) {
  let end = 0;
  const base = x.map((size) => {
    end += size;
    return end - size;
  });
  const trace = { orientation: "h", base, x, customdata: x.map(String), ...more };
  const layout = { margin: { l: 8, r: 8 }, xaxis: { range: [0, 10] }, height: 40 };
  return { data: [trace], layout };
}

/** @param {string[]} outlines */
function drawn(...outlines) {
  const node = document.createElement("div");
  const points = outlines.map((d) => `<g class="point"><path d="${d}"></path></g>`);
  node.innerHTML = `<svg><g class="barlayer">${points.join("")}</g></svg>`;
  const first = figure([4, 2]);
  const bars = new DrawnBars(node);
  bars.drawn(first, WIDTH, looksOf(first));
  const seen = () => [...node.querySelectorAll("path")].map((p) => p.getAttribute("d"));
  return { bars, seen };
}

const DRAWN = ["M0,5V25H40V5Z", "M40,5V25H60V5Z"];

test("a bar lies between the margins, on the axis of its trace", () => {
  assert.deepEqual(spansOf(figure([4, 2]), WIDTH), [
    [0, 40],
    [40, 60],
  ]);
  const { data, layout } = figure([4], { xaxis: "x2" });
  const second = { ...layout, xaxis2: { range: [0, 20] } };
  assert.deepEqual(spansOf({ data, layout: second }, WIDTH), [[0, 20]]);
});

test("only bars with a place and a size are known", () => {
  assert.equal(spansOf(figure([4], { orientation: "v" }), WIDTH), null);
  assert.equal(spansOf(figure([4], { base: undefined }), WIDTH), null);
  assert.equal(spansOf({ data: figure([4]).data, layout: {} }, WIDTH), null);
});

test("bars are moved where they begin and end, and stay at their height", () => {
  const { bars, seen } = drawn(...DRAWN);
  assert.equal(bars.move(figure([3.001, 5]), WIDTH), true);
  assert.deepEqual(seen(), ["M0,5V25H30.01V5Z", "M30.01,5V25H80.01V5Z"]);
});

test("plotly draws what differs in more, and what is not where it was expected", () => {
  const { bars, seen } = drawn(...DRAWN);
  assert.equal(bars.move(figure([3, 5], { width: 0.4 }), WIDTH), false, "its look");
  assert.equal(bars.move(figure([3, 5, 1]), WIDTH), false, "one more");
  assert.equal(bars.move(figure([3, 0]), WIDTH), false, "a bar of nothing");
  assert.equal(bars.move(figure([3, 5]), WIDTH + 1), false, "another width");
  assert.deepEqual(seen(), DRAWN);
  const shifted = drawn("M0,5V25H41V5Z", DRAWN[1]);
  assert.equal(shifted.bars.move(figure([3, 5]), WIDTH), false, "drawn elsewhere");
  assert.equal(drawn(DRAWN[0]).bars.move(figure([3, 5]), WIDTH), false, "one missing");
});
