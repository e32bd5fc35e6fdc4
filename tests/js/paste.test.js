import assert from "node:assert/strict";
import { test } from "node:test";

import { FakeModel, find, render } from "./page.js";

const { default: paste } = await import("#static/paste.js");
const { default: read } = await import("#static/read.js");

const PIECE = 40000;

function box(most = 200000) {
  const state = { label: "Paste", hint: "vllm serve", most, said: "", is_busy: false };
  const model = new FakeModel(state);
  const { el, remove } = render(paste, model);
  return { model, el, remove, area: find(el, "textarea") };
}

test("the box has a label, and what was read is spoken from a live region", () => {
  const { model, el, area, remove } = box();
  assert.equal(find(el, "label").getAttribute("for"), area.id);
  const said = find(el, "[role=status]");
  model.set("said", "<p>A command</p>");
  assert.equal(find(el, "[role=status]"), said);
  assert.equal(said.textContent, "A command");
  remove();
  assert.equal(model.count, 0);
});

test("a long text goes in pieces, and no more of it than is read", () => {
  const { model, el, area } = box(PIECE * 2);
  area.value = "x".repeat(PIECE * 3);
  find(el, "button").click();
  assert.deepEqual(
    model.sent.map(({ piece }) => piece.length),
    [PIECE, PIECE, 1],
  );
  assert.deepEqual(
    model.sent.map(({ is_first: first, is_last: last }) => [first, last]),
    [
      [true, false],
      [false, false],
      [false, true],
    ],
  );
});

test("Enter ends one line, and is a line of a longer text", () => {
  const { model, area } = box();
  const press = () =>
    area.dispatchEvent(
      new KeyboardEvent("keydown", { key: "Enter", cancelable: true }),
    );
  area.value = "vllm serve \\\n  org/m";
  press();
  assert.deepEqual(model.sent, []);
  area.value = "org/m";
  press();
  assert.deepEqual(model.sent, [
    { piece: "org/m", is_first: true, is_last: true, is_whole: true },
  ]);
});

test("an empty box is told too: the text is gone", () => {
  const { model, el } = box();
  find(el, "button").click();
  assert.equal(model.sent.length, 1);
  assert.equal(model.sent[0].piece, "");
});

test("a press is told by its name, and what was written is shown", () => {
  const model = new FakeModel({ html: "<button data-press='undo'>Undo</button>" });
  const { el, remove } = render(read, model);
  find(el, "button").click();
  assert.deepEqual(model.sent, [{ press: "undo" }]);
  model.set("html", "");
  assert.equal(find(el, "[data-part=read-inside]").hidden, true);
  remove();
  assert.equal(model.count, 0);
});
