// The row above the explorer: undo and redo, named plans, the release, a link to share,
// light or dark, and recipes to begin with.

import { followAddress, isApp, isOfThisMachine } from "./address.js";
import { newId, setAttribute } from "./change.js";
import { whenConnected } from "./connected.js";
import { make } from "./make.js";
import { plansMenu } from "./plans.js";

/**
 * @typedef {object} Headed
 * @property {string} query the plan's link
 * @property {boolean} can_undo
 * @property {boolean} can_redo
 * @property {string[]} recipes
 * @property {string[]} releases
 * @property {string} release
 * @property {string} share_at address of an app that others can open, or nothing
 *
 * @typedef {import("@anywidget/types").AnyModel<Headed>} HeaderModel
 */

const THEMES = ["auto", "light", "dark"];
const THEME = "planner-theme";
const SAID_MS = 4000;

/**
 * @param {string} label
 * @param {() => void} press
 * @param {Record<string, string>} [attributes]
 */
function tool(label, press, attributes = {}) {
  const button = make(
    "button",
    { type: "button", class: "ph-tool", ...attributes },
    label,
  );
  button.addEventListener("click", press);
  return button;
}

/**
 * @param {string} title
 * @param {readonly string[]} values
 * @param {string} chosen
 * @param {(value: string) => void} choose
 */
function list(title, values, chosen, choose) {
  const id = newId();
  const options = values.map((value) => make("option", { value }, value));
  const select = make("select", { id, class: "ph-select" }, ...options);
  select.value = chosen;
  select.addEventListener("change", () => choose(select.value));
  const label = make("label", { for: id }, title);
  return { node: make("span", { class: "ph-list" }, label, select), select };
}

const COPIED =
  "Copied verdict, command and a link: this page's address opens on this machine only.";

/**
 * Writes the plan as text, where the page's address is not the plan's for others: the box
 * of any planner reads the command, and an app's address takes the query.
 *
 * @param {string} query
 * @param {string} base address of an app that others can open, or nothing
 * @param {Element | null} root the explorer
 */
function textOf(query, base, root) {
  const words = (/** @type {string} */ part) =>
    (root?.querySelector(part)?.textContent ?? "").replace(/\s+/g, " ").trim();
  const answer = `${words(".pl-subject")}: ${words(".pl-headline")}`;
  const link = base ? base + query : `In the address of a planner's app: ${query}`;
  return `# ${answer}\n# ${link}\n${words(".pl-command code")}\n`;
}

/** @param {HeaderModel} model */
function shareButton(model) {
  const { origin, pathname } = window.location;
  const isHere = isOfThisMachine(window.location);
  const isLink = isApp() && !isHere; // the page's address is the link
  const said = make("span", { class: "ph-copied", role: "status" });
  const button = tool("Share", async () => {
    const query = model.get("query");
    const text = isLink
      ? origin + pathname + query
      : textOf(query, model.get("share_at"), button.closest(".planner-explorer"));
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = isLink ? "Link copied" : "Plan copied";
      if (isApp() && isHere) said.textContent = COPIED;
    } catch {
      button.textContent = isLink ? "Copy the address" : "Not allowed to copy";
    }
    setTimeout(() => {
      button.textContent = "Share";
      said.textContent = "";
    }, SAID_MS);
  });
  button.title = isLink
    ? "Copy a link that opens this plan"
    : "Copy this plan: its verdict, a link and the command";
  return [button, said];
}

function themeList() {
  const root = document.documentElement;
  const { node } = list("theme", THEMES, root.dataset.theme ?? "auto", (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    try {
      window.localStorage.setItem(THEME, theme);
    } catch {
      // Not kept, then.
    }
  });
  return node;
}

/** @param {HeaderModel} model */
function chips(model) {
  const made = model
    .get("recipes")
    .map((title, recipe) =>
      tool(title, () => model.send({ recipe }), { class: "ph-chip" }),
    );
  const attributes = { class: "ph-chips", role: "group", "aria-label": "Recipes" };
  return make("div", attributes, make("span", {}, "Try"), ...made);
}

/** @param {EventTarget | null} target whether Ctrl+Z takes back what was typed there */
const isText = (target) =>
  target instanceof Element &&
  target.matches("textarea, input:not([type=range], [type=checkbox])");

/**
 * Takes Ctrl+Z and Ctrl+Y of an explorer outside of its text entries.
 *
 * @param {HeaderModel} model
 * @param {KeyboardEvent} event
 */
function pressed(model, event) {
  const { key, ctrlKey, metaKey, altKey, shiftKey, target } = event;
  if (!(ctrlKey || metaKey) || altKey || isText(target)) return;
  const isRedo = key === "y" || (key.toLowerCase() === "z" && shiftKey);
  if (!isRedo && key !== "z") return;
  event.preventDefault();
  event.stopPropagation();
  model.send({ move: isRedo ? "redo" : "undo" });
}

/** @type {import("@anywidget/types").AnyWidget<Headed>} */
export default {
  initialize({ model }) {
    return followAddress(model);
  },
  render({ model, el }) {
    el.classList.add("planner-header");
    const undo = tool("↶", () => model.send({ move: "undo" }), {
      "aria-label": "Undo",
      title: "Undo (Ctrl+Z)",
    });
    const redo = tool("↷", () => model.send({ move: "redo" }), {
      "aria-label": "Redo",
      title: "Redo (Ctrl+Y)",
    });
    const release = list("vLLM", model.get("releases"), model.get("release"), (value) =>
      model.send({ release: value }),
    );
    const plans = plansMenu(model);
    // A notebook has a theme of its own, which the explorer follows.
    const themes = isApp() ? [themeList()] : [];
    const tools = make(
      "div",
      { class: "ph-tools", role: "group", "aria-label": "Plan" },
      undo,
      redo,
      plans,
      release.node,
      ...shareButton(model),
      ...themes,
    );
    el.append(tools);
    if (!isApp() || window.location.search.length < 2) el.append(chips(model));
    const show = () => {
      // Not disabled: a button that has the focus would lose it.
      setAttribute(undo, "aria-disabled", String(!model.get("can_undo")));
      setAttribute(redo, "aria-disabled", String(!model.get("can_redo")));
      release.select.value = model.get("release");
    };
    show();
    model.on("change", show);
    /** @type {Element | null} */
    let root = null;
    const keys = (/** @type {Event} */ event) =>
      pressed(model, /** @type {KeyboardEvent} */ (event));
    whenConnected(el, () => {
      root = el.closest(".planner-explorer");
      root?.addEventListener("keydown", keys);
    });
    return () => {
      root?.removeEventListener("keydown", keys);
      model.off("change", show);
    };
  },
};
