import assert from "node:assert/strict";
import { test } from "node:test";

import "./page.js";

import { RunLog } from "#static/run_log.js";
import { FakeModel, find, render } from "./page.js";

const { clock, default: run } = await import("#static/run.js");

const STAGES = ["beginning", "weights", "graphs"];
const shown = () => {
  const state = {
    state: "running",
    title: "vllm serve",
    stage: "weights",
    skipped: [],
  };
  const counts = { stages: STAGES, position: 1, fraction: 0.4, seconds: 65 };
  const model = new FakeModel({ ...state, ...counts });
  return { model, ...render(run, model) };
};

test("time is written in minutes, and in hours where there are any", () => {
  assert.deepEqual([0, 65.9, 3661, -5].map(clock), ["0:00", "1:05", "1:01:01", "0:00"]);
});

test("the log keeps its last lines, and takes none twice", () => {
  const log = new RunLog();
  assert.equal(log.box.hidden, true);
  log.add({ first: 0, lines: ["<b>one</b>", "two"] });
  log.add({ first: 1, lines: ["two", "three"] });
  assert.equal(log.text.textContent, "<b>one</b>\ntwo\nthree\n");
  assert.equal(log.name.textContent, "Log of vLLM, 3 lines");
  log.add({ first: 3, lines: Array(2_000).fill("more") });
  assert.equal(log.text.textContent, "more\n".repeat(2_000));
  log.clear();
  assert.equal(log.text.textContent, "");
});

test("a reader who scrolled up is left there by lines that come before the event", () => {
  const log = new RunLog();
  const height = () => (log.text.textContent ?? "").length;
  Object.defineProperty(log.text, "scrollHeight", { get: height });
  log.add({ first: 0, lines: Array(100).fill("line") });
  assert.equal(log.text.scrollTop, 500);
  log.text.scrollTop = 10;
  log.add({ first: 100, lines: ["one more"] });
  assert.equal(log.text.scrollTop, 10);
  assert.equal(log.down.hidden, false);
  log.toEnd();
  log.add({ first: 101, lines: ["and one"] });
  assert.equal(log.text.scrollTop, height());
});

test("stages say which are behind, which is now, and which are to come", () => {
  const { model, el, remove } = shown();
  const marks = () =>
    [...el.querySelectorAll("li")].map((item) => item.getAttribute("data-is"));
  assert.deepEqual(marks(), ["past", "now", "to come"]);
  model.set("skipped", ["weights"]);
  model.set("position", 2);
  assert.deepEqual(marks(), ["past", "skipped", "now"]);
  model.set("state", "ended");
  assert.equal(find(el, "ol").querySelector("[aria-current]"), null);
  remove();
});

test("a page says that it has come, that it is there again, and that it leaves", () => {
  const { model, remove } = shown();
  window.dispatchEvent(new Event("pageshow"));
  remove();
  assert.deepEqual(
    model.sent.map(({ kind }) => kind),
    ["hello", "here", "leaving"],
  );
  assert.equal(new Set(model.sent.map(({ view }) => view)).size, 1);
  assert.equal(model.count, 0);
});

test("a kernel that seeks the progress moves the focus there", () => {
  const { model, el, remove } = shown();
  model.tell("msg:custom", { kind: "seek" });
  assert.equal(document.activeElement, find(el, "[tabindex='-1']"));
  remove();
});
