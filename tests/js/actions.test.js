import assert from "node:assert/strict";
import { test } from "node:test";

import actions from "#static/actions.js";
import { FakeModel, find, render } from "./page.js";

const row = (/** @type {string} */ key) => ({
  key,
  title: `Row ${key}`,
  actions: [{ name: "apply", label: "Apply" }],
});

const listed = (/** @type {object} */ given) => {
  const state = { heading: "Advice", note: "", remarks: [], shown: 2, is_busy: false };
  const model = new FakeModel({ ...state, rows: ["a", "b", "c"].map(row), ...given });
  return { model, ...render(actions, model) };
};

test("a press is told by the row's key, and a button says which row it is for", () => {
  const { model, el } = listed({});
  const button = find(el, '[data-press="apply b"]');
  assert.equal(button.getAttribute("aria-label"), "Apply: Row b");
  button.click();
  assert.deepEqual(model.sent, [{ press: "apply", row: "b" }]);
});

test("a few rows are shown until the list is opened, which keeps the focus", () => {
  const { el } = listed({ remarks: ["beware"] });
  assert.equal(el.querySelectorAll(".pl-row").length, 2);
  assert.equal(el.querySelector(".pl-remarks"), null);
  find(el, ".pl-more").focus();
  find(el, ".pl-more").click();
  assert.equal(el.querySelectorAll(".pl-row").length, 3);
  assert.equal(find(el, ".pl-remarks").textContent, "beware");
  assert.equal(document.activeElement, find(el, ".pl-more"));
  assert.equal(find(el, ".pl-more").getAttribute("aria-expanded"), "true");
});

test("rows stand under the heading of their group, with its rule once all are shown", () => {
  const grouped = ["a", "b", "c"].map((key, index) => ({
    ...row(key),
    group: index < 2 ? "No loss" : "More hardware",
    rule: "What it costs.",
  }));
  const { el } = listed({ rows: grouped });
  const heads = () =>
    [...el.querySelectorAll(".pl-list-group")].map((n) => n.textContent);
  assert.deepEqual(heads(), ["No loss "]);
  find(el, ".pl-more").click();
  assert.deepEqual(heads(), ["No loss What it costs.", "More hardware What it costs."]);
  const lists = [...el.querySelectorAll("ul.pl-rows")];
  assert.deepEqual(
    lists.map((list) => list.querySelectorAll("li").length),
    [2, 1],
  );
});

test("the focus never falls on another row's button", () => {
  const { model, el } = listed({});
  find(el, '[data-press="apply a"]').focus();
  model.set("rows", [row("b"), row("c")]);
  assert.equal(document.activeElement, find(el, ".pl-list-heading"));
});

test("a list of nothing is not there, unless it has a note", () => {
  const { model, el } = listed({ rows: [] });
  assert.equal(el.hidden, true);
  model.set("note", "nothing helps");
  assert.equal(el.hidden, false);
});

test("a list that is removed hears no more", () => {
  const { model, remove } = listed({});
  remove();
  assert.equal(model.count, 0);
});
