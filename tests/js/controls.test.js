import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { FakeModel, find, render } from "./page.js";

const { default: controls } = await import("#static/controls.js");
const { breakable } = await import("#static/controls_parts.js");

const FIELDS = () => ({
  model: {
    kind: "model",
    v: "Qwen/Qwen3-8B",
    rows: [
      ["Qwen/Qwen3-8B", "8B", "dense"],
      ["Qwen/Qwen3-8B-FP8", "8B", "dense"],
      ["openai/gpt-oss-20b", "21B", "experts"],
    ],
  },
  max_model_len: { kind: "number", c: "40960", steps: [1024, 2048, 4096, 40960] },
  dtype: {
    kind: "choice",
    v: "",
    c: "bfloat16",
    options: [
      ["", "vLLM's choice"],
      ["half", "half"],
    ],
  },
  lora: { kind: "json", hint: "adapters" },
});

/** @param {object} [given] */
function shown(given = {}) {
  const groups = [
    ["Main", ["model", "max_model_len", "dtype"], false],
    ["Adapters", ["lora"], true],
  ];
  const state = { groups, gone: [], finder: "", is_disabled: false };
  const model = new FakeModel({ ...state, state: FIELDS(), ...given });
  const { el, remove } = render(controls, model);
  model.sent.length = 0;
  const field = (/** @type {string} */ name) => find(el, `[data-name="${name}"]`);
  return { model, el, remove, field };
}

/** @param {Element} node @param {string} type @param {string} [value] */
function fire(node, type, value) {
  if (value !== undefined) Object.assign(node, { value });
  node.dispatchEvent(new Event(type, { bubbles: true }));
}

test("a typed text goes to the kernel as it is, once", () => {
  const { model, field } = shown();
  const entry = find(field("max_model_len"), "input[type=text]");
  fire(entry, "input", "8k");
  fire(entry, "change");
  fire(entry, "change");
  assert.deepEqual(model.sent, [{ set: "max_model_len", value: "8k", n: 1 }]);
});

test("a slider offers steps, and stands where the kernel's answer is", () => {
  const { model, field } = shown();
  const slider = find(field("max_model_len"), "input[type=range]");
  assert.equal(slider.value, "3");
  assert.equal(slider.getAttribute("aria-valuetext"), "40,960, vLLM's choice");
  fire(slider, "input", "1");
  assert.deepEqual(model.sent, [{ set: "max_model_len", value: 2048, n: 1 }]);
  model.tell("msg:custom", { show: { max_model_len: { v: "4K", set: true } }, ack: 1 });
  assert.equal(slider.value, "2");
  assert.equal(slider.getAttribute("aria-valuetext"), "4,096");
});

test("a slider goes back where the last answer changes nothing", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { model, field } = shown();
  const slider = find(field("max_model_len"), "input[type=range]");
  const entry = find(field("max_model_len"), "input[type=text]");
  fire(find(field("dtype"), "select"), "change", "half"); // not answered yet
  fire(slider, "input", "1");
  fire(entry, "input", "");
  fire(entry, "change");
  for (const ack of [1, 2]) {
    model.tell("msg:custom", { ack });
    mock.timers.tick(50);
  }
  assert.deepEqual(model.sent[1], { set: "max_model_len", value: "", n: 2 });
  assert.equal(model.sent.length, 2);
  assert.equal(slider.getAttribute("aria-valuetext"), "40,960, vLLM's choice");
  assert.equal(slider.value, "3");
  mock.timers.reset();
});

test("while a step is on its way, another answer does not move its slider", () => {
  const { model, field } = shown();
  const slider = find(field("max_model_len"), "input[type=range]");
  fire(slider, "input", "1");
  model.tell("msg:custom", { show: { max_model_len: { hint: "at most 40960" } } });
  assert.equal(slider.getAttribute("aria-valuetext"), "2,048");
  assert.equal(slider.value, "1");
});

test("an error is written where a screen reader speaks it, once", () => {
  const { model, field } = shown();
  model.tell("msg:custom", { show: { max_model_len: { e: "too long" } } });
  const alert = find(field("max_model_len"), "[role=alert]");
  model.tell("msg:custom", { show: { max_model_len: { e: "far too long" } } });
  assert.equal(alert.textContent, "far too long");
  assert.equal(alert.isConnected, true);
  model.tell("msg:custom", { show: { max_model_len: { e: "" } } });
  assert.equal(alert.isConnected, false);
});

test("a list says what vLLM chooses", () => {
  const { model, field } = shown();
  const select = find(field("dtype"), "select");
  assert.equal(select.options[0].textContent, "vLLM's choice: bfloat16");
  fire(select, "change", "half");
  assert.deepEqual(model.sent, [{ set: "dtype", value: "half", n: 1 }]);
});

test("the model is found by a part of its name, by keys alone", () => {
  const { model, el } = shown();
  const box = find(el, "[role=combobox]");
  fire(box, "input", "8b fp8");
  assert.equal(box.getAttribute("aria-expanded"), "true");
  assert.equal(el.querySelectorAll("[role=option]").length, 1);
  const enter = new KeyboardEvent("keydown", { key: "Enter", cancelable: true });
  box.dispatchEvent(enter);
  assert.deepEqual(model.sent, [{ set: "model", value: "Qwen/Qwen3-8B-FP8", n: 1 }]);
  assert.equal(box.getAttribute("aria-expanded"), "false");
});

test("models of the Hub follow the bundled ones, each above its releases", () => {
  const { model, el } = shown();
  fire(find(el, "[role=combobox]"), "input", "oss");
  const rows = [
    ["openai/gpt-oss-20b", "21.5 B", ""],
    ["someone/gpt-oss-20b-FP8", "FP8", "openai/gpt-oss-20b"],
    ["someone/oss", "1.0 B, gated", ""],
    ["someone/oss-AWQ", "AWQ", "someone/oss"],
  ];
  model.tell("msg:custom", { found: "oss", rows, remark: "" });
  const group = find(el, '[aria-label="On the Hugging Face Hub"]');
  assert.deepEqual(
    [...group.children].map((node) => [node.textContent, node.className]),
    [
      ["On the Hugging Face Hub", "pc-list-title"],
      ["Releases of openai/gpt-oss-20b", "pc-list-title"],
      ["someone/gpt-oss-20b-FP8 FP8", "is-release"],
      ["someone/oss 1.0 B, gated", ""],
      ["someone/oss-AWQ AWQ", "is-release"],
    ],
  );
  assert.equal(find(el, "[role=option]").dataset.name, "openai/gpt-oss-20b");
});

test("the Hub is searched once typing pauses, and only where it may be", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const sentBy = (/** @type {boolean} */ hub) => {
    const { model, el } = shown();
    model.tell("msg:custom", { show: { model: { hub } } });
    const box = find(el, "[role=combobox]");
    for (const text of ["os", "oss", "oss-20b"]) fire(box, "input", text);
    mock.timers.tick(1000);
    return model.sent;
  };
  assert.deepEqual(sentBy(true), [{ find: "oss-20b" }]);
  assert.deepEqual(sentBy(false), []);
  mock.timers.reset();
});

test("of the addresses in an error, those of the Hub are links", () => {
  const { model, field } = shown();
  const e = "Terms at https://huggingface.co/a/b, not https://evil.example/c.";
  model.tell("msg:custom", { show: { model: { e } } });
  const alert = find(field("model"), "[role=alert]");
  assert.equal(alert.textContent, e);
  assert.deepEqual(
    [...alert.querySelectorAll("a")].map((link) => link.getAttribute("href")),
    ["https://huggingface.co/a/b"],
  );
});

test("a folded group is built when it is opened, and opens for what is wrong", () => {
  const { model, el } = shown();
  assert.equal(el.querySelector('[data-name="lora"]'), null);
  model.tell("msg:custom", { show: { lora: { e: "no JSON" } } });
  assert.equal(find(el, "details").open, true);
  assert.equal(find(el, '[data-name="lora"] [role=alert]').textContent, "no JSON");
});

test("plain words stand before vLLM's name, except in the list of all arguments", () => {
  const state = {
    ...FIELDS(),
    dtype: { kind: "text", title: "Data type", label: "kind" },
  };
  const { field } = shown({ state });
  assert.equal(find(field("dtype"), ".pl-name").textContent, "Data type");
  assert.equal(find(field("dtype"), ".pc-argument").textContent, "kind");
  const all = shown({ state, finder: "Find" });
  fire(find(all.el, "input[type=search]"), "input", "dtype");
  assert.equal(find(all.field("dtype"), ".pl-name").textContent, "kind");
  assert.equal(all.el.querySelector(".pc-argument"), null);
});

test("the finder shows the arguments that hold every word, and how many", () => {
  const { el } = shown({ finder: "Find" });
  const entry = find(el, "input[type=search]");
  fire(entry, "input", "max len");
  assert.equal(find(el, ".pc-count").textContent, "1 argument");
  assert.equal(find(el, '[data-title="Adapters"]').hidden, true);
  fire(entry, "input", "adapters");
  assert.equal(find(el, ".pc-count").textContent, "1 argument");
  assert.equal(find(el, '[data-name="lora"]').hidden, false);
  fire(entry, "input", "");
  assert.equal(find(el, ".pc-count").textContent, "");
});

test("fields that do not apply are hidden, and a group of none is too", () => {
  const { model, el, field } = shown();
  model.set("gone", ["dtype", "lora"]);
  assert.equal(field("dtype").hidden, true);
  assert.equal(find(el, '[data-title="Adapters"]').hidden, true);
  assert.equal(field("model").hidden, false);
});

test("a view that is removed hears no more", () => {
  const { model, remove } = shown();
  const before = model.count;
  remove();
  assert.equal(before - model.count, 2);
});

test("a long name of vLLM's breaks after its underscores", () => {
  const parts = breakable("draft_tensor_parallel_size");
  const text = parts.map((part) => (typeof part === "string" ? part : "|")).join("");
  assert.equal(text, "draft_|tensor_|parallel_|size");
  assert.deepEqual(breakable("method"), ["method"]);
});

test("a title that is vLLM's own name has no second name", () => {
  const state = FIELDS();
  Object.assign(state.model, { title: "Model" });
  Object.assign(state.max_model_len, { title: "Context length" });
  const { field } = shown({ state });
  const named = (/** @type {string} */ name) =>
    find(field(name), ".pc-help").textContent;

  assert.equal(named("model"), "?");
  assert.equal(named("max_model_len"), "max_model_len");
});

test("what vLLM chooses is in grey, and said once above the sliders", () => {
  const { el, field } = shown();
  const entry = find(field("max_model_len"), "input[type=text]");

  assert.equal(entry.getAttribute("placeholder"), "40,960");
  assert.equal(entry.getAttribute("title"), "vLLM's choice");
  assert.ok(
    /** @type {HTMLElement} */ (find(field("max_model_len"), ".pc-own")).hidden,
  );
  assert.equal(el.querySelectorAll(".pc-note").length, 1);
});

test("names that the kernel knows are offered while one is typed", () => {
  const state = FIELDS();
  Object.assign(state.max_model_len, { known: ["H100-MIG-1g.10gb"] });
  const { field } = shown({ state });
  const list = find(field("max_model_len"), "input[type=text]").getAttribute("list");

  assert.equal(find(field("max_model_len"), "datalist").id, list);
  const option = find(field("max_model_len"), "datalist option");
  assert.equal(option.getAttribute("value"), "H100-MIG-1g.10gb");
});
