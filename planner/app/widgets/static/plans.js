// Named plans, kept in the browser: a name and a link each. They are sent nowhere but to
// the page's own kernel, when one is opened.

import { newId } from "./change.js";
import { make } from "./make.js";

/** @typedef {{ name: string, query: string }} KeptPlan */

const KEPT = "planner-plans";
const MOST = 20;
const LONGEST_NAME = 60;

/** @param {any} one of what was kept, by whomever */
const isPlan = (one) =>
  typeof one?.name === "string" &&
  typeof one?.query === "string" &&
  one.query.startsWith("?");

/** @returns {KeptPlan[]} */
export function keptPlans() {
  try {
    const kept = JSON.parse(window.localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(kept) ? kept.filter(isPlan).slice(0, MOST) : [];
  } catch {
    return [];
  }
}

/**
 * @param {KeptPlan[]} plans
 * @returns {boolean} whether the browser keeps them
 */
function keep(plans) {
  try {
    window.localStorage.setItem(KEPT, JSON.stringify(plans));
    return true;
  } catch {
    return false;
  }
}

/**
 * Makes the menu of named plans.
 *
 * @param {import("./header.js").HeaderModel} model
 */
export function plansMenu(model) {
  const id = newId();
  const name = make("input", {
    id,
    type: "text",
    class: "ph-name",
    maxlength: LONGEST_NAME,
    autocomplete: "off",
    placeholder: "name of this plan",
  });
  const said = make("p", { class: "ph-said", role: "status" });
  const rows = make("ul", { class: "ph-plans" });
  const save = make("button", { type: "button", class: "ph-tool" }, "Save");
  const inside = make(
    "div",
    { class: "ph-inside" },
    make(
      "div",
      { class: "ph-save" },
      make("label", { for: id, class: "pc-unseen" }, "Name of this plan"),
      name,
      save,
    ),
    said,
    rows,
  );
  const summary = make("summary", { class: "ph-tool" }, "Plans");
  const menu = make("details", { class: "ph-menu" }, summary, inside);

  const draw = () => {
    const items = keptPlans().map(({ name: title, query }) => {
      const open = make("button", { type: "button", class: "ph-open" }, title);
      open.addEventListener("click", () => {
        model.send({ opened: query });
        close();
      });
      const label = `Delete ${title}`;
      const attributes = { type: "button", class: "ph-tool", "aria-label": label };
      const remove = make("button", attributes, "×");
      remove.addEventListener("click", () => {
        keep(keptPlans().filter((one) => one.name !== title));
        said.textContent = `Deleted: ${title}`;
        draw();
        name.focus();
      });
      return make("li", {}, open, remove);
    });
    rows.replaceChildren(...items);
  };
  const store = () => {
    const title = name.value.trim();
    const query = model.get("query");
    const others = keptPlans().filter((one) => one.name !== title);
    if (!title) said.textContent = "Give it a name first.";
    else if (!query) said.textContent = "A plan of a folder has no link to keep.";
    else if (others.length >= MOST) {
      said.textContent = `${MOST} plans are kept: delete one first.`;
    } else {
      const isKept = keep([{ name: title, query }, ...others]);
      said.textContent = isKept
        ? `Kept in this browser: ${title}`
        : "This browser keeps nothing.";
      if (isKept) name.value = "";
    }
    draw();
  };
  const close = () => {
    menu.open = false;
    summary.focus();
  };
  save.addEventListener("click", store);
  name.addEventListener("keydown", (event) => {
    if (event.key === "Enter") store();
  });
  menu.addEventListener("toggle", () => {
    if (!menu.open) return;
    said.textContent = "";
    draw();
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    event.stopPropagation();
    close();
  });
  return menu;
}
