import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { Store, storeOf } from "#static/controls_store.js";
import { FakeModel } from "./page.js";

const made = () => {
  const fields = { a: { kind: "number", v: "1", e: "wrong" }, b: { kind: "number" } };
  const model = new FakeModel({ state: fields });
  const store = new Store(/** @type {any} */ (model));
  model.sent.length = 0;
  return { model, store };
};

test("all views of a model have one store", () => {
  const model = /** @type {any} */ (new FakeModel({ state: {} }));
  assert.equal(storeOf(model), storeOf(model));
  assert.deepEqual(model.sent, [{ ready: true }]);
});

test("while a step is unanswered only the newest waits", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { model, store } = made();
  store.set("a", 1);
  store.set("a", 2);
  store.set("a", 3);
  mock.timers.tick(50);
  assert.deepEqual(model.sent, [{ set: "a", value: 1, n: 1 }]);
  assert.equal(store.isPending("a"), true);
  model.tell("msg:custom", { ack: 1 });
  mock.timers.tick(50);
  assert.deepEqual(model.sent[1], { set: "a", value: 3, n: 2 });
  assert.equal(store.isPending("a"), true);
  model.tell("msg:custom", { ack: 2 });
  assert.equal(store.isPending("a"), false);
  mock.timers.reset();
});

test("a kernel that does not answer locks the controls for ten seconds only", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { model, store } = made();
  store.set("a", 1);
  store.set("b", 2);
  mock.timers.tick(9_999);
  assert.equal(model.sent.length, 1);
  mock.timers.tick(100);
  assert.equal(model.sent.length, 2);
  mock.timers.reset();
});

test("the kernel's changes reach the fields and the views", () => {
  const { model, store } = made();
  /** @type {unknown[]} */
  const heard = [];
  store.views.add({
    show: (changes) => heard.push(changes),
    explained: (name, text) => heard.push([name, text]),
    found: (text, hub) => heard.push([text, hub]),
  });
  model.tell("msg:custom", { show: { a: { v: "2", e: "" }, unknown: { v: "3" } } });
  model.tell("msg:custom", { explained: "a", text: "a length" });
  const rows = [["Qwen/x", "8.0 B", ""]];
  model.tell("msg:custom", { found: "qwen", rows, remark: "" });
  assert.deepEqual(store.fields.a, { kind: "number", v: "2", e: "" });
  assert.equal("unknown" in store.fields, false);
  assert.equal(heard.length, 3);
  assert.deepEqual(heard[1], ["a", "a length"]);
  assert.deepEqual(heard[2], ["qwen", { rows, remark: "" }]);
});

test("an explanation is fetched once", () => {
  const { model, store } = made();
  store.explain("a");
  assert.deepEqual(model.sent, [{ explain: "a" }]);
  model.tell("msg:custom", { explained: "a", text: "a length" });
  store.explain("a");
  assert.equal(model.sent.length, 1);
});
