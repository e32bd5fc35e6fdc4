// The scheduler does what vLLM's own did, block by block, in each recorded step:
// `tools/record_scheduler.py` recorded both files.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Request, Scheduler } from "#static/scheduler.js";

/** @param {string} name */
const read = (name) =>
  JSON.parse(readFileSync(new URL(`../data/${name}`, import.meta.url), "utf-8"));

/** @param {any} group */
const rule = ({ kind, block_size, kept = 0, reused = false, saved = false }) => {
  return { kind, size: block_size, kept, reused, saved };
};

/** @param {any} drawn */
function engine({ groups, blocks, seqs, batched, caching, requests }) {
  const totals = requests.map((/** @type {any} */ one) => one.prompt + one.answer);
  const longest = Math.max(...totals);
  return { rules: groups.map(rule), blocks, seqs, batched, caching, longest };
}

/** @param {Scheduler} scheduler @param {Request[]} requests */
function shown({ tables, running, pool }, requests) {
  const held = running.map((one) => [
    one.name,
    [
      one.computed,
      one.preemptions,
      tables.map(({ blocks }) =>
        blocks.get(one.name)?.map((block) => block?.index ?? 0),
      ),
    ],
  ]);
  const finished = requests.filter(({ phase }) => phase === "finished");
  return [
    Object.fromEntries(held),
    finished.map(({ name }) => name),
    pool.free.map(({ index }) => index),
  ];
}

const STEPS = read("scheduler_steps.json");
for (const [number, drawn] of STEPS.cases.entries()) {
  test(`case ${number} has the blocks that vLLM has in each step`, () => {
    const scheduler = new Scheduler(engine(drawn));
    const requests = drawn.requests.map((/** @type {any} */ one) => new Request(one));
    /** @type {any} */
    let before = [{}, [], []];
    for (const [at, [news, finished, free]] of drawn.steps.entries()) {
      const held = Object.entries(news).map(([name, [computed, times, blocks]]) => {
        return [name, [computed, times, blocks || before[0][name][2]]];
      });
      before = [Object.fromEntries(held), finished, free || before[2]];
      drawn.requests.forEach((/** @type {any} */ one, /** @type {number} */ index) => {
        if (one.step === at + 1) scheduler.add(requests[index]);
      });
      scheduler.step();
      assert.deepEqual(shown(scheduler, requests), before, `step ${at + 1}`);
    }
  });
}

const DAYS = read("scheduler_days.json");
for (const [number, drawn] of DAYS.cases.entries()) {
  test(`day ${number} has vLLM's blocks, preemptions and ends`, () => {
    const { shared, checked, used } = drawn;
    const requests = drawn.requests.map(
      (/** @type {number[]} */ one, /** @type {number} */ at) => {
        return new Request({
          name: `${at + 1}`,
          prompt: one[1],
          answer: one[2],
          shared,
        });
      },
    );
    const { groups, blocks, seqs, batched, caching } = drawn;
    const longest = 8192;
    const rules = groups.map(rule);
    const scheduler = new Scheduler({ rules, blocks, seqs, batched, caching, longest });
    const samples = [];
    const ends = new Map();
    let arrived = 0;
    let sum = 0;
    for (let step = 1; ends.size < requests.length && step < 40_000; step += 1) {
      while (drawn.requests[arrived]?.[0] <= step) scheduler.add(requests[arrived++]);
      scheduler.step();
      const { running } = scheduler;
      const computed = running.reduce((all, one) => all + one.computed, 0);
      for (const seen of [scheduler.used, running.length, computed]) {
        sum = (sum * 31 + seen) % 1_000_003;
      }
      if (step % 100 === 0) samples.push(scheduler.used);
      for (const { what, one } of scheduler.events) {
        if (what === "finished") ends.set(one, step);
      }
    }
    const rows = requests.map((/** @type {Request} */ one) => [
      one.preemptions,
      ends.get(one),
    ]);
    assert.deepEqual(
      rows,
      drawn.requests.map((/** @type {number[]} */ one) => one.slice(3)),
    );
    assert.deepEqual(samples, used);
    assert.equal(sum, checked);
  });
}

test("the days have preemptions, windows, states and prefixes found", () => {
  const kinds = new Set(
    DAYS.cases.flatMap((/** @type {any} */ { groups }) =>
      groups.map((/** @type {any} */ { kind }) => kind),
    ),
  );
  const times = DAYS.cases.map((/** @type {any} */ { requests }) =>
    requests.reduce(
      (/** @type {number} */ sum, /** @type {number[]} */ one) => sum + one[3],
      0,
    ),
  );
  assert.equal(DAYS.cases.length, 50);
  assert.deepEqual([...kinds].sort(), ["full", "state", "window"]);
  assert.ok(times.filter(Boolean).length > 25, `${times}`);
});
