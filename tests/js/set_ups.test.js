import assert from "node:assert/strict";
import { test } from "node:test";

import setUps from "#static/set_ups.js";
import { FakeModel, find, render } from "./page.js";

const figures = (/** @type {string} */ key, layout = "TP 2") => ({
  key,
  layout,
  held: "23",
  speed: "821",
  user: "41",
  first: "1.55 s",
  cost: "3.10 USD",
});

const row = (/** @type {string} */ gpu) => ({
  ...figures(`${gpu}/2`),
  gpu,
  gpus: `2 x ${gpu}`,
  price: "9.18",
  each: "4.59",
  source: "a list, 2026-10-07",
  own: false,
  others: [figures(`${gpu}/pp`, "PP 2")],
});

const drawn = (/** @type {object} */ given = {}) => {
  const model = new FakeModel({
    ...{ note: "", answer: "Fewest: 2 x A", needs: 20, misses: [], remarks: [] },
    ...{ order: "fewest", most: "8", currency: "USD", progress: 1, is_stale: false },
    ...{ is_kept_by_page: false, current: "", mapped: "" },
    ...{ checkpoints: [], checkpoint: "" },
    rows: ["A", "B", "C", "D", "E", "F"].map(row),
    ...given,
  });
  return { model, ...render(setUps, model) };
};

const settled = () => new Promise((resolve) => queueMicrotask(() => resolve(null)));

test("the deciding columns come first, and five rows", () => {
  const { el } = drawn();
  const heads = [...el.querySelectorAll("thead th")].map((one) => one.textContent);
  assert.deepEqual(heads.slice(0, 4), [
    "GPUs",
    "USD per hour",
    "Holds (needs 20)",
    "Tokens per second, at most",
  ]);
  assert.equal(el.querySelectorAll("tbody tr").length, 5);
  find(el, ".pl-more").click();
  assert.equal(el.querySelectorAll("tbody tr").length, 6);
  assert.equal(find(el, ".pl-more").getAttribute("aria-expanded"), "true");
});

test("a press is told by the row's key, and names its row", () => {
  const { model, el } = drawn();
  const apply = find(el, '[data-press="apply B/2"]');
  assert.equal(apply.getAttribute("aria-label"), "Apply: 2 x B TP 2");
  apply.click();
  find(el, '[data-press="map A/2"]').click();
  find(el, '[data-press="order cheapest"]').click();
  assert.deepEqual(model.sent, [
    { apply: "B/2" },
    { map: "A/2" },
    { order: "cheapest" },
  ]);
});

test("other layouts open below their GPUs, and are applied by their own key", () => {
  const { model, el } = drawn();
  find(el, '[data-press="layouts A"]').click();
  assert.equal(el.querySelectorAll("tbody tr").length, 6);
  find(el, '[data-press="apply A/pp"]').click();
  assert.deepEqual(model.sent, [{ apply: "A/pp" }]);
  assert.equal(find(el, '[data-press="layouts A"]').textContent, "fewer layouts");
});

test("a price is typed, told by its GPU, and kept by the page where no server does", () => {
  localStorage.clear();
  for (const isKept of [false, true]) {
    const { model, el } = drawn({ is_kept_by_page: isKept });
    const entry = find(el, '[data-press="price A"]');
    assert.equal(entry.value, "4.59");
    assert.equal(entry.title, "a list, 2026-10-07");
    entry.value = "2,5";
    entry.dispatchEvent(new Event("change"));
    assert.deepEqual(model.sent, [{ price: "2,5", gpu: "A" }]);
    const kept = localStorage.getItem("planner-prices");
    assert.equal(kept, isKept ? '{"A":2.5}' : null);
  }
});

test("the prices that a page has kept are told when it opens", () => {
  localStorage.setItem("planner-prices", '{"A":2.5}');
  assert.deepEqual(drawn({ is_kept_by_page: true }).model.sent, [
    { prices: { A: 2.5 } },
  ]);
  assert.deepEqual(drawn().model.sent, []);
  localStorage.setItem("planner-prices", "not JSON");
  assert.deepEqual(drawn({ is_kept_by_page: true }).model.sent, []);
});

test("rows that come while one types leave the entry and the focus alone", async () => {
  const { model, el } = drawn();
  const entry = find(el, '[data-press="price B"]');
  entry.focus();
  entry.value = "1.";
  model.set("rows", ["B", "A"].map(row));
  await settled();
  const same = find(el, '[data-press="price B"]');
  assert.equal(document.activeElement, same);
  assert.equal(same.value, "1.");
});

test("rows of an earlier plan are marked, and cannot be applied", async () => {
  const { model, el } = drawn();
  model.set("is_stale", true);
  await settled();
  assert.ok(el.classList.contains("is-stale"));
  assert.equal(find(el, '[data-press="apply A/2"]').disabled, true);
  assert.equal(find(el, ".ps-answer").textContent, "For an earlier plan");
});

test("the row on the screen says so, and is not applied again", () => {
  const { el } = drawn({ current: "A/2" });
  const button = find(el, '[data-press="apply A/2"]');
  assert.equal(button.textContent, "On screen");
  assert.equal(button.disabled, true);
  assert.ok(button.closest("tr").classList.contains("is-current"));
});

test("a search shows how far it is, and can be cancelled", async () => {
  const { model, el } = drawn({ progress: 0.4 });
  assert.equal(el.getAttribute("aria-busy"), "true");
  assert.equal(find(el, "progress").value, 40);
  find(el, '[data-press="cancel"]').click();
  assert.deepEqual(model.sent, [{ cancel: true }]);
  model.set("progress", 1);
  await settled();
  assert.equal(el.querySelector("progress"), null);
});

test("a note stands in place of the table", () => {
  const { el } = drawn({ note: "Say what you need first." });
  assert.equal(el.querySelector("table"), null);
  assert.equal(find(el, ".pl-list-note").textContent, "Say what you need first.");
});

test("text from the kernel is never markup", () => {
  const { el } = drawn({ misses: ["<img src=x>"], remarks: ["<b>"] });
  assert.equal(el.querySelector("img, b"), null);
});

test("a table that is removed hears no more", async () => {
  const { model, el, remove } = drawn();
  model.set("answer", "later");
  remove();
  await settled();
  assert.equal(model.count, 0);
  assert.equal(find(el, ".ps-answer").textContent, "Fewest: 2 x A");
});

test("another checkpoint of the model is searched for by its name", () => {
  const { model, el } = drawn({
    checkpoints: [
      ["8 bits, FP8: o/m-FP8", "o/m-FP8"],
      ["4 bits, AWQ: estimated as a usual one", "o/m~AWQ"],
    ],
    checkpoint: "o/m~AWQ",
  });
  const list = find(el, '[data-press="checkpoint"]');
  assert.equal(list.value, "o/m~AWQ");
  assert.equal(list.querySelectorAll("option")[0].textContent, "as chosen");
  list.value = "o/m-FP8";
  list.dispatchEvent(new Event("change"));
  assert.deepEqual(model.sent.at(-1), { checkpoint: "o/m-FP8" });
});

test("without another checkpoint there is nothing to choose", () => {
  assert.equal(drawn().el.querySelector('[data-press="checkpoint"]'), null);
});

test("a price that is typed while rows are drawn anew is told at Enter", async () => {
  const { model, el } = drawn();
  document.body.append(el);
  const entry = find(el, '[data-press="price B"]');
  entry.focus();
  entry.value = "0,5";
  model.set("checkpoints", [["8 bits, FP8: o/m-FP8", "o/m-FP8"]]);
  await settled();
  const same = find(el, '[data-press="price B"]');
  assert.equal(same.value, "0,5");
  same.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  same.dispatchEvent(new Event("change"));
  assert.deepEqual(model.sent, [{ price: "0,5", gpu: "B" }]);
  el.remove();
});
