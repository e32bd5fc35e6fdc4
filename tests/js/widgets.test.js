import assert from "node:assert/strict";
import { mock, test } from "node:test";

import "./page.js";

import answer from "#static/answer.js";
import exported from "#static/export.js";
import places from "#static/place.js";
import toggle from "#static/toggle.js";
import { FakeModel, find, place, render } from "./page.js";

const { default: header } = await import("#static/header.js");

test("a section's heading opens it, and says whether it is open", () => {
  const model = new FakeModel({ description: "Run it", value: false });
  const { el, remove } = render(toggle, model);
  const button = find(el, "h2 > button");
  assert.equal(button.getAttribute("aria-expanded"), "false");
  button.click();
  assert.equal(model.get("value"), true);
  assert.equal(button.getAttribute("aria-expanded"), "true");
  remove();
  assert.equal(model.count, 0);
});

test("a format is chosen from a list with a label, and what was written is shown", () => {
  const formats = [
    ["python", "Python"],
    ["yaml", "Compose"],
  ];
  const model = new FakeModel({ formats, chosen: "python", html: "<code>llm</code>" });
  const { el } = render(exported, model);
  const select = find(el, "select");
  assert.equal(find(el, "label").getAttribute("for"), select.id);
  assert.equal(select.value, "python");
  assert.equal(find(el, "code").textContent, "llm");
  select.value = "yaml";
  select.dispatchEvent(new Event("change"));
  assert.deepEqual(model.sent, [{ format: "yaml" }]);
});

test("a panel tells when a reader opens it, not when it is written open", () => {
  const model = new FakeModel({ names: ["panel-memory"] });
  const { el } = render(places, model);
  const panel = find(el, "[data-part=panel-memory]");
  panel.innerHTML = '<details data-panel="memory" data-known="true" open></details>';
  const details = find(panel, "details");
  const turned = (/** @type {boolean} */ isOpen) => {
    details.open = isOpen;
    details.dispatchEvent(new Event("toggle"));
  };
  model.sent.length = 0;
  turned(true);
  assert.deepEqual(model.sent, []);
  turned(false);
  assert.deepEqual(model.sent.at(-1), { panel: "memory", open: false });
});

test("only the app's address follows the controls", () => {
  const model = new FakeModel({ query: "" });
  const { initialize } = /** @type {any} */ (header);
  place();
  assert.equal(initialize({ model }), undefined);
  document.body.insertAdjacentHTML("beforeend", '<i id="planner-plotly"></i>');
  window.history.replaceState(null, "", "/?model=a");
  const remove = initialize({ model });
  assert.deepEqual(model.sent, [{ opened: "?model=a" }]);
  model.set("query", "?model=b");
  assert.equal(window.location.search, "?model=b");
  remove();
  assert.equal(model.count, 0);
  window.history.replaceState(null, "", "/");
});

test("the answer fills its own parts, and those of the explorer's places", async () => {
  const react = mock.fn();
  Object.assign(window, { Plotly: { react } });
  const verdict = '<p class="pl-verdict pl-fits"><b class="pl-headline">Fits</b></p>';
  const parts = { verdict, "panel-memory": "<i>lines</i>" };
  const figure = { data: [], layout: { height: 99 } };
  const model = new FakeModel({ parts, figure, label: "Memory of a GPU" });
  const root = place();
  root.className = "planner-explorer";
  root.innerHTML = '<div class="planner-parts"><p data-part="panel-memory"></p></div>';
  const el = document.createElement("div");
  root.append(el);
  const { remove } = render(answer, model, el);
  await null;

  assert.equal(find(el, "[data-part=verdict]").textContent, "Fits");
  assert.equal(find(el, "[data-part=alert]").hidden, true);
  assert.equal(find(root, ".planner-parts i").textContent, "lines");
  const chart = find(el, ".planner-chart");
  assert.equal(chart.getAttribute("aria-label"), "Memory of a GPU");
  assert.equal(chart.style.height, "99px");
  model.set("parts", { verdict: verdict.replace("Fits", "Short") });
  assert.equal(find(root, ".planner-bar").textContent.trim(), "Short");
  assert.equal(find(root, ".planner-bar").classList.contains("pl-fits"), true);
  remove();
  assert.equal(model.count, 0);
  assert.equal(root.querySelector(".planner-bar"), null);
});
