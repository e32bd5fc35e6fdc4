import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { FakeModel, find, place, render } from "./page.js";

const { default: header } = await import("#static/header.js");
const { keptPlans } = await import("#static/plans.js");

const STATE = {
  query: "?model=a&gpu=H100",
  can_undo: false,
  can_redo: false,
  recipes: ["First", "Second"],
  releases: ["0.33.0", "0.32.0"],
  release: "0.33.0",
  share_at: "",
};

beforeEach(() => window.localStorage.clear());

/** @param {boolean} isApp */
function shown(isApp = false) {
  const root = place();
  root.className = "planner-explorer";
  root.innerHTML = `<p></p><input type="range"><input type="text">${
    isApp ? '<i id="planner-plotly"></i>' : ""
  }`;
  const model = new FakeModel({ ...STATE });
  const { el, remove } = render(header, model, find(root, "p"));
  return { root, el, model, remove };
}

/** @param {Element} el @param {string} name */
function save(el, name) {
  const entry = find(el, ".ph-name");
  entry.value = name;
  find(el, ".ph-save button").click();
}

test("undo, redo, the release and a recipe are told to the kernel", () => {
  const { el, model } = shown();
  const undo = find(el, "[aria-label=Undo]");
  assert.equal(undo.getAttribute("aria-disabled"), "true");
  model.set("can_undo", true);
  assert.equal(undo.getAttribute("aria-disabled"), "false");
  undo.click();
  find(el, "[aria-label=Redo]").click();
  const select = find(el, "select");
  select.value = "0.32.0";
  select.dispatchEvent(new Event("change"));
  find(el, ".ph-chip:nth-of-type(2)").click();
  assert.deepEqual(model.sent, [
    { move: "undo" },
    { move: "redo" },
    { release: "0.32.0" },
    { recipe: 1 },
  ]);
});

test("Ctrl+Z takes back outside of text entries only", () => {
  const { root, model, remove } = shown();
  /** @param {string} selector @param {object} keys */
  const press = (selector, keys) =>
    find(root, selector).dispatchEvent(
      new KeyboardEvent("keydown", { bubbles: true, cancelable: true, ...keys }),
    );
  press("input[type=range]", { key: "z", ctrlKey: true });
  press("input[type=range]", { key: "z", ctrlKey: true, shiftKey: true });
  press("input[type=range]", { key: "y", ctrlKey: true });
  press("input[type=range]", { key: "z" });
  press("input[type=text]", { key: "z", ctrlKey: true });
  assert.deepEqual(
    model.sent.map(({ move }) => move),
    ["undo", "redo", "redo"],
  );
  remove();
  assert.equal(model.count, 0);
});

test("a plan is kept under its name, opened and deleted; the browser keeps 20", () => {
  const { el, model } = shown();
  save(el, " ");
  assert.deepEqual(keptPlans(), []);
  save(el, "<b>mine</b>");
  assert.deepEqual(keptPlans(), [{ name: "<b>mine</b>", query: STATE.query }]);
  assert.equal(find(el, ".ph-open").textContent, "<b>mine</b>");
  find(el, ".ph-open").click();
  assert.deepEqual(model.sent, [{ opened: STATE.query }]);
  for (let number = 1; number <= 20; number += 1) save(el, `plan ${number}`);
  assert.equal(keptPlans().length, 20);
  assert.match(find(el, ".ph-said").textContent, /20 plans are kept/);
  find(el, "[aria-label='Delete plan 19']").click();
  assert.equal(keptPlans().length, 19);
});

test("what was kept by somebody else is taken only where it is a plan", () => {
  window.localStorage.setItem("planner-plans", '[{"name": 1}, {"name": "a"}, null]');
  assert.deepEqual(keptPlans(), []);
  window.localStorage.setItem("planner-plans", "not JSON");
  assert.deepEqual(keptPlans(), []);
});

const SAID =
  "<b class='pl-subject'>a on\n H100</b><b class='pl-headline'>✔ Fits</b>" +
  "<pre class='pl-command'><code>vllm serve a</code></pre>";

/**
 * Presses Share; returns what was copied, and what the header says.
 *
 * @param {boolean} isApp
 * @param {string} url the page's
 * @param {string} [shareAt]
 */
async function shared(isApp, url, shareAt = "") {
  let copied = "";
  const clipboard = {
    writeText: async (/** @type {string} */ text) => {
      copied = text;
    },
  };
  Object.defineProperty(globalThis, "navigator", {
    configurable: true,
    value: { clipboard },
  });
  /** @type {any} */ (window).happyDOM.setURL(url);
  const { root, el, model } = shown(isApp);
  model.set("share_at", shareAt);
  root.insertAdjacentHTML("beforeend", SAID);
  const buttons = [...el.querySelectorAll("button")];
  buttons.find(({ textContent }) => textContent === "Share")?.click();
  await Promise.resolve();
  await Promise.resolve();
  /** @type {any} */ (window).happyDOM.setURL("http://planner.test/");
  return { copied, said: find(el, ".ph-copied").textContent };
}

test("a notebook shares its plan as text: verdict, link and command", async () => {
  const { copied, said } = await shared(false, "http://localhost:8888/lab");
  assert.equal(
    copied,
    "# a on H100: ✔ Fits\n# In the address of a planner's app: ?model=a&gpu=H100\n" +
      "vllm serve a\n",
  );
  assert.equal(said, "");
});

test("a page of this machine shares its plan as text, and says why", async () => {
  for (const url of ["http://127.0.0.1:8866/", "http://localhost:8866/"]) {
    const { copied, said } = await shared(true, url, "https://plan.example.org/");
    assert.equal(
      copied,
      "# a on H100: ✔ Fits\n# https://plan.example.org/?model=a&gpu=H100\n" +
        "vllm serve a\n",
    );
    assert.match(said, /this machine only/);
  }
});

test("a published page shares its own link", async () => {
  const { copied, said } = await shared(true, "https://plan.example.org/app/");
  assert.equal(copied, "https://plan.example.org/app/?model=a&gpu=H100");
  assert.equal(said, "");
});

test("a notebook has its own theme; the app has one to choose", () => {
  assert.equal(shown().el.textContent?.includes("theme"), false);
  const { el } = shown(true);
  assert.equal(el.textContent?.includes("Share"), true);
  const theme = el.querySelectorAll("select")[1];
  theme.value = "dark";
  theme.dispatchEvent(new Event("change"));
  assert.equal(document.documentElement.dataset.theme, "dark");
  assert.equal(window.localStorage.getItem("planner-theme"), "dark");
});
