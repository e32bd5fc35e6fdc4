import assert from "node:assert/strict";
import { test } from "node:test";

import { FakeModel, find, place, render } from "./page.js";

const { default: tabs } = await import("#static/tabs.js");

function shown(chosen = "advice") {
  const root = place();
  root.innerHTML =
    '<div class="row"></div><p class="planner-tab-memory"></p>' +
    '<p class="planner-tab-advice"></p><p class="planner-tab-run"></p>';
  const titles = [
    ["memory", "Memory"],
    ["advice", "Advice"],
    ["run", "Run"],
  ];
  const model = new FakeModel({ titles, chosen });
  const { el, remove } = render(tabs, model, find(root, ".row"));
  /** @param {string} name */
  const tab = (name) => find(el, `[data-tab=${name}]`);
  /** @param {string} name */
  const panel = (name) => find(root, `.planner-tab-${name}`);
  return { el, model, remove, tab, panel };
}

test("each tab names what it shows, and only the open one is seen", () => {
  window.localStorage.clear();
  const { tab, panel } = shown();
  assert.equal(tab("advice").getAttribute("aria-selected"), "true");
  assert.equal(tab("memory").getAttribute("aria-selected"), "false");
  assert.equal(panel("advice").getAttribute("role"), "tabpanel");
  assert.equal(tab("advice").getAttribute("aria-controls"), panel("advice").id);
  assert.equal(panel("advice").getAttribute("aria-labelledby"), tab("advice").id);
  assert.equal(panel("advice").classList.contains("is-closed"), false);
  assert.equal(panel("memory").classList.contains("is-closed"), true);
});

test("arrow keys, Home and End open tabs; one of them is a stop of the Tab key", () => {
  window.localStorage.clear();
  const { el, model, tab } = shown();
  const list = find(el, "[role=tablist]");
  /** @param {string} key */
  const press = (key) =>
    list.dispatchEvent(new window.KeyboardEvent("keydown", { key, cancelable: true }));
  press("ArrowRight");
  press("ArrowRight");
  press("End");
  press("Home");
  press("ArrowLeft");
  assert.deepEqual(
    model.sent.map(({ tab }) => tab),
    ["run", "memory", "run", "memory", "run"],
  );
  assert.equal(document.activeElement, tab("run"));
  assert.deepEqual(
    ["memory", "advice", "run"].map((name) => tab(name).tabIndex),
    [-1, -1, 0],
  );
});

test("the tab that was opened last is opened again, where there is one", () => {
  window.localStorage.clear();
  shown().tab("memory").click();
  const again = shown();
  assert.deepEqual(again.model.sent, [{ tab: "memory" }]);
  window.localStorage.setItem("planner-tab", "elsewhere");
  const other = shown();
  assert.deepEqual(other.model.sent, []);
  other.remove();
  assert.equal(other.model.count, 0);
});
