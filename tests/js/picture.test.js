import assert from "node:assert/strict";
import { mock, test } from "node:test";

import "./page.js";

import { difference, GhostOfPlan } from "#static/ghost.js";
import { broken, spread, ticks } from "#static/labels.js";
import { legend } from "#static/legend.js";
import { marks, modeFor } from "#static/marks.js";
import { fileName } from "#static/save.js";

const GIB = 2 ** 30;

/**
 * @param {string} of
 * @param {number | null} gib
 * @param {number} requests
 * @returns {import("../../planner/app/widgets/static/marks.js").Picture}
 */
function picture(of, gib, requests) {
  const kv = gib === null ? null : gib * GIB;
  return {
    groups: [
      {
        unit: "GiB per GPU",
        end: 80,
        edges: [
          { at: 79, text: "GPU total 79.00 GiB", budget: false },
          { at: 72, text: "vLLM may use 72.00 GiB", budget: true },
        ],
        rows: [
          {
            title: "8 x <b>H100</b>",
            parts: [
              ["weights", "30.00", 0, 30, "#0072B2", "#FFFFFF"],
              ["CUDA graphs", "1.00", 30, 31, "#F0E442", "#000000"],
              ["KV cache", "41.00", 31, 72, "#009E73", "#000000"],
            ],
            soft: [30, 31, 32, "#F0E442", "#009E73"],
          },
        ],
      },
    ],
    modes: [
      { leaders: false, title: 22, below: 8, height: 188, groups: [places(150)] },
      { leaders: true, title: 22, below: 62, height: 242, groups: [places(204)] },
    ],
    soft: "Soft edge: the KV cache may be 40.00 to 42.00 GiB",
    plan: { of, kv_cache_bytes: kv, requests },
  };
}

/** @param {number} end */
const places = (end) => ({ top: 0, start: 36, end, bar: 84 });

test("a name breaks where its lines are most even", () => {
  assert.deepEqual(broken("persistent buffers"), ["persistent", "buffers"]);
  assert.deepEqual(broken("outside vLLM's budget"), ["outside", "vLLM's budget"]);
  assert.deepEqual(broken("weights"), ["weights"]);
});

test("labels that have room stay at their middle, others share the distance", () => {
  const apart = [
    { from: 100, width: 40 },
    { from: 300, width: 40 },
  ];
  assert.deepEqual(spread(apart, 400), [100, 300]);
  // Both want 200: with a gap of 10 their middles are 50 apart, 25 to each side.
  const same = [
    { from: 200, width: 40 },
    { from: 200, width: 40 },
  ];
  assert.deepEqual(spread(same, 400), [175, 225]);
  // At the left end the first touches 0.
  assert.deepEqual(spread([{ from: 5, width: 40 }], 400), [20]);
  assert.deepEqual(spread([{ from: 399, width: 40 }], 400), [380]);
  assert.deepEqual(spread([], 400), []);
});

test("an axis has round numbers, as many as there is room for", () => {
  const texts = (/** @type {number} */ end, /** @type {number} */ width) =>
    ticks(end, width).map(({ text }) => text);
  assert.deepEqual(texts(80.4, 790), [
    "0",
    "10",
    "20",
    "30",
    "40",
    "50",
    "60",
    "70",
    "80",
  ]);
  assert.deepEqual(texts(80.4, 320), ["0", "20", "40", "60", "80"]);
  assert.deepEqual(texts(1.5, 320), ["0", "0.5", "1", "1.5"]);
});

test("the difference of two plans is signed, in GiB and in requests", () => {
  const { plan: before } = picture("m", 40, 7.5);
  assert.equal(
    difference(picture("m", 42.5, 8).plan, before),
    "KV cache +2.50 GiB, +0.50 requests at once",
  );
  assert.equal(
    difference(picture("m", 39, 7.25).plan, before),
    "KV cache -1.00 GiB, -0.25 requests at once",
  );
  assert.equal(difference(before, before), "");
  assert.equal(difference(picture("m", null, 0).plan, before), "");
});

test("the ghost is the plan at which the reader last rested", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let ended = 0;
  const ghost = new GhostOfPlan(() => {
    ended += 1;
  });
  const first = picture("m", 40, 7);
  assert.equal(ghost.beside(first), null);
  assert.equal(
    ghost.beside(picture("m", 41, 7))?.text.slice(0, 18),
    "KV cache +1.00 GiB",
  );
  mock.timers.tick(1900);
  const moved = picture("m", 43, 7);
  assert.equal(ghost.beside(moved)?.picture, first);
  assert.equal(ghost.beside(moved)?.text.slice(0, 18), "KV cache +3.00 GiB");
  mock.timers.tick(1900);
  assert.equal(ended, 0);
  mock.timers.tick(200);
  assert.equal(ended, 1);
  assert.equal(ghost.beside(moved), null);
  assert.equal(ghost.beside(picture("m", 42, 7))?.picture, moved);
  // Another model or GPU: nothing to compare with.
  assert.equal(ghost.beside(picture("other", 9, 1)), null);
  mock.timers.tick(5000);
  mock.timers.reset();
});

test("names are in their segments or on leader lines, and text stays text", () => {
  const drawn = picture("m", 40, 7);
  assert.equal(modeFor(drawn, 800).leaders, true);
  const nodes = marks(drawn, modeFor(drawn, 800), 800, null);
  const said = nodes.map((node) => node.textContent).join("|");
  for (const name of ["weights30.00 GiB", "CUDAgraphs1.00 GiB", "KV cache41.00 GiB"]) {
    assert.ok(said.includes(name), `${name}: ${said}`);
  }
  assert.ok(said.includes("8 x <b>H100</b>"));
  assert.equal(
    nodes.filter((node) => node.getAttribute("class") === "pm-leader").length,
    1,
  );
  assert.equal(
    nodes.filter((node) => node.getAttribute("class") === "pm-ghost").length,
    0,
  );
});

test("a narrow picture has a legend with every size, and no leader lines", () => {
  const drawn = picture("m", 40, 7);
  assert.equal(modeFor(drawn, 200).leaders, false);
  const nodes = marks(drawn, modeFor(drawn, 200), 200, null);
  assert.equal(
    nodes.filter((node) => node.getAttribute("class") === "pm-leader").length,
    0,
  );
  assert.deepEqual(
    legend(drawn.groups[0]).map(({ name, size }) => `${name} ${size}`),
    ["weights 30.00", "CUDA graphs 1.00", "KV cache 41.00"],
  );
});

test("the ghost is outlined over the bar, with the difference beside the title", () => {
  const before = picture("m", 40, 7);
  const text = "KV cache +1.00 GiB, +0.10 requests at once";
  const nodes = marks(before, before.modes[1], 800, { picture: before, text });
  const outlines = nodes.filter((node) => node.getAttribute("class") === "pm-ghost");
  assert.equal(outlines.length, before.groups[0].rows[0].parts.length);
  const title = nodes.find((node) => node.getAttribute("class") === "pm-title");
  assert.ok(title?.textContent?.endsWith(text));
});

test("a saved file is named after what was planned", () => {
  assert.equal(
    fileName("Qwen/Qwen3-32B on 8 x H100 · vLLM 0.33.0"),
    "Qwen3-32B-on-8-x-H100",
  );
  assert.equal(fileName(""), "plan");
});
