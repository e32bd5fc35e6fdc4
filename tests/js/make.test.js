import assert from "node:assert/strict";
import { test } from "node:test";

import { setAttribute, setText } from "#static/change.js";
import { make } from "#static/make.js";
import { place } from "./page.js";

test("attributes of nothing are left out, and those of true have no value", () => {
  const attributes = { id: "a", hidden: true, title: null, lang: false, tabindex: 0 };
  const node = make("p", { ...attributes, dir: undefined });
  assert.deepEqual(node.getAttributeNames(), ["id", "hidden", "tabindex"]);
  assert.equal(node.getAttribute("hidden"), "");
  assert.equal(node.getAttribute("tabindex"), "0");
});

test("text is text, never markup", () => {
  const node = make("p", {}, "<b>bold</b> ", make("i", {}, "<img>"));
  assert.equal(node.children.length, 1);
  assert.equal(node.textContent, "<b>bold</b> <img>");
});

test("what is so already is not written again", async () => {
  const node = make("p", { title: "5" }, "same");
  place().append(node);
  const text = node.firstChild;
  setText(node, "same");
  assert.equal(node.firstChild, text);
  setText(node, "other");
  assert.equal(node.textContent, "other");
  setAttribute(node, "title", 5);
  assert.equal(node.getAttribute("title"), "5");
  setAttribute(node, "title", null);
  assert.equal(node.hasAttribute("title"), false);
});
