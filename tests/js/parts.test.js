import assert from "node:assert/strict";
import { test } from "node:test";

import { fill, part } from "#static/parts.js";
import { find, place } from "./page.js";

const { fillLinks } = await import("#static/export.js");

const TABLE = `<table><tbody>
  <tr class="pl-line" data-key="weights"><td class="pl-line-name">weights</td></tr>
  <tr><td>what they are</td></tr>
</tbody></table>`;

test("a part is made once, and found again by its name", () => {
  const el = place();
  const made = part(el, "verdict");
  assert.equal(part(el, "verdict"), made);
  assert.equal(el.children.length, 1);
  assert.equal(made.dataset.part, "verdict");
});

test("a part of nothing is hidden", () => {
  const node = part(place(), "alert");
  fill(node, "<p>careful</p>");
  assert.equal(node.hidden, false);
  fill(node, "");
  assert.equal(node.hidden, true);
});

test("what the reader opened stays open when a part is filled again", () => {
  const node = part(place(), "memory");
  const details = (/** @type {string} */ text) =>
    `<details data-key="a"><summary>${text}</summary></details>`;
  fill(node, details("one"));
  find(node, "details").open = true;
  fill(node, details("two"));
  assert.equal(find(node, "details").open, true);
  assert.equal(node.textContent, "two");
});

test("the focus stays at what has the same key", () => {
  const node = part(place(), "memory");
  const line = (/** @type {string} */ text) =>
    `<p data-key="a"><button>${text}</button></p>`;
  fill(node, line("one"));
  find(node, "button").focus();
  fill(node, line("two"));
  assert.equal(document.activeElement, find(node, "button"));
  assert.equal(document.activeElement?.textContent, "two");
});

test("a line of a table opens to the row below it, and stays open", () => {
  const node = part(place(), "memory");
  fill(node, TABLE);
  const [line, below] = node.querySelectorAll("tr");
  assert.equal(below.hidden, true);
  find(line, "button").click();
  assert.equal(below.hidden, false);
  assert.equal(find(line, "button").getAttribute("aria-expanded"), "true");
  fill(node, TABLE.replace("what", "how"));
  assert.equal(node.querySelectorAll("tr")[1].hidden, false);
});

test("a link has the page's address in the app alone", () => {
  const el = place();
  el.innerHTML = '<code data-link="?model=a">?model=a</code>';
  fillLinks(el);
  assert.equal(el.textContent, "?model=a");
  document.body.insertAdjacentHTML("beforeend", '<i id="planner-plotly"></i>');
  fillLinks(el);
  assert.equal(el.textContent, "http://planner.test/?model=a");
});

test("a link of this machine's page is another app's, or says that it is", () => {
  /** @type {any} */ (window).happyDOM.setURL("http://127.0.0.1:8866/");
  const el = place();
  document.body.insertAdjacentHTML("beforeend", '<i id="planner-plotly"></i>');
  const code = '<code data-link="?model=a"></code>';
  el.innerHTML = `<div class="pl-command"><pre>${code}</pre></div>`;
  fillLinks(el);
  fillLinks(el);
  assert.equal(find(el, "code").textContent, "http://127.0.0.1:8866/?model=a");
  assert.equal(el.querySelectorAll(".pl-here").length, 1);

  find(el, ".pl-here").remove();
  find(el, "code").dataset.base = "https://plan.example.org/";
  fillLinks(el);
  assert.equal(find(el, "code").textContent, "https://plan.example.org/?model=a");
  assert.equal(el.querySelectorAll(".pl-here").length, 0);
  /** @type {any} */ (window).happyDOM.setURL("http://planner.test/");
});
