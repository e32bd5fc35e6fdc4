import assert from "node:assert/strict";
import { test } from "node:test";

import setUps from "#static/set_ups.js";
import { FakeModel, find, render } from "./page.js";

const figures = (/** @type {string} */ key, layout = "TP 2") => ({
  key,
  layout,
  held: "23",
  speed: ["821", "600 to 1,100"],
  user: ["41", "30 to 55"],
  first: ["", "at least 1.55 s"],
  cost: "3.10 USD",
});

const row = (/** @type {string} */ gpu) => ({
  ...figures(`${gpu}/2`),
  gpu,
  gpus: `2 x ${gpu}`,
  format: "",
  answers: "",
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
    ...{ best: 2, quality: "no loss", rate: "1", listed_in: "USD" },
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
    "Tokens per second",
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

test("formats are searched up to a class, and named with what they may cost", () => {
  const best = {
    ...row("A"),
    format: "o/m-AWQ",
    answers: "try your prompts first",
  };
  const { model, el } = drawn({ rows: [best, row("A")], quality: "little loss" });
  const list = find(el, '[data-press="quality"]');
  assert.equal(list.value, "little loss");
  list.value = "no loss";
  list.dispatchEvent(new Event("change"));
  assert.deepEqual(model.sent.at(-1), { quality: "no loss" });
  assert.equal(find(el, ".ps-format").textContent, "o/m-AWQ: try your prompts first");
  assert.equal(el.querySelectorAll(".ps-format").length, 1);
  find(el, '[data-press="layouts A o/m-AWQ"]').click();
  assert.equal(el.querySelectorAll("tbody tr").length, 3);
});

test("all rows that no other beats are shown, up to ten", () => {
  const rows = [..."ABCDEFGHIJKL"].map(row);
  assert.equal(drawn({ rows, best: 7 }).el.querySelectorAll("tbody tr").length, 7);
  assert.equal(drawn({ rows, best: 12 }).el.querySelectorAll("tbody tr").length, 10);
});

test("a currency is told with its rate, and kept where no server does", () => {
  localStorage.clear();
  const { model, el } = drawn({ is_kept_by_page: true });
  find(el, '[data-press="currency"]').value = "EUR";
  const rate = find(el, '[data-press="rate"]');
  assert.equal(rate.getAttribute("aria-label"), "One USD in it");
  rate.value = "0.92";
  rate.dispatchEvent(new Event("change"));
  const said = { currency: "EUR", rate: "0.92" };
  assert.deepEqual(model.sent, [said]);
  assert.deepEqual(drawn({ is_kept_by_page: true }).model.sent, [said]);
  localStorage.clear();
});

test("a price that is typed while rows are drawn anew is told at Enter", async () => {
  const { model, el } = drawn();
  document.body.append(el);
  const entry = find(el, '[data-press="price B"]');
  entry.focus();
  entry.value = "0,5";
  model.set("quality", "little loss");
  await settled();
  const same = find(el, '[data-press="price B"]');
  assert.equal(same.value, "0,5");
  same.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  same.dispatchEvent(new Event("change"));
  assert.deepEqual(model.sent, [{ price: "0,5", gpu: "B" }]);
  el.remove();
});

test("a forecast has its range below it, and a bound stands alone", () => {
  const cells = drawn().el.querySelectorAll("tbody tr:first-child td");
  assert.equal(cells[2].textContent, "821600 to 1,100");
  assert.equal(cells[2].querySelector(".ps-range")?.textContent, "600 to 1,100");
  assert.equal(cells[4].textContent, "at least 1.55 s");
});
