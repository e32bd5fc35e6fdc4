// The row of tabs (WAI-ARIA's pattern "tabs", which open as the arrow keys reach them)
// and what they show: the widgets beside it, of which only the open one is seen.

import { newId, setAttribute } from "./change.js";
import { whenConnected } from "./connected.js";
import { make } from "./make.js";

/**
 * @typedef {{ titles: [name: string, title: string][], chosen: string }} Tabbed
 */

const KEPT = "planner-tab";
/** Below this share of the screen, too little of a tab is seen. */
const LOW = 0.55;

/** The tab that the reader opened last; a page may forbid to keep anything. */
function kept() {
  try {
    return window.localStorage.getItem(KEPT) ?? "";
  } catch {
    return "";
  }
}

/** @param {string} name */
function keep(name) {
  try {
    window.localStorage.setItem(KEPT, name);
  } catch {
    // Not kept, then.
  }
}

/**
 * Brings the tabs up where what they show would begin below the screen: the verdict and
 * the memory stay above it as one line.
 *
 * @param {HTMLElement} el
 */
function bringUp(el) {
  if (el.getBoundingClientRect().top < window.innerHeight * LOW) return;
  const isCalm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  el.scrollIntoView({ block: "start", behavior: isCalm ? "auto" : "smooth" });
}

/** @type {import("@anywidget/types").AnyWidget<Tabbed>} */
export default {
  render({ model, el }) {
    el.classList.add("planner-tabs");
    const names = model.get("titles").map(([name]) => name);
    const prefix = newId();
    const tabs = model.get("titles").map(([name, title]) => {
      const tab = make(
        "button",
        { type: "button", role: "tab", id: `${prefix}-${name}`, "data-tab": name },
        title,
      );
      tab.addEventListener("click", () => {
        open(name);
        bringUp(el);
      });
      return tab;
    });
    const list = make(
      "div",
      { class: "pl-tabs", role: "tablist", "aria-label": "About this plan" },
      ...tabs,
    );
    el.append(list);

    const show = () => {
      const chosen = model.get("chosen");
      for (const tab of tabs) {
        const isOpen = tab.dataset.tab === chosen;
        setAttribute(tab, "aria-selected", String(isOpen));
        tab.tabIndex = isOpen ? 0 : -1;
      }
      for (const name of names) place(name, name === chosen);
    };
    /**
     * @param {string} name
     * @param {boolean} isOpen
     */
    const place = (name, isOpen) => {
      /** @type {HTMLElement | null | undefined} */
      const panel = el.parentElement?.querySelector(`:scope > .planner-tab-${name}`);
      if (!panel) return;
      panel.id ||= `${prefix}-${name}-panel`;
      setAttribute(panel, "role", "tabpanel");
      setAttribute(panel, "aria-labelledby", `${prefix}-${name}`);
      panel.classList.toggle("is-closed", !isOpen);
      const tab = tabs[names.indexOf(name)];
      setAttribute(tab, "aria-controls", panel.id);
    };
    /** @param {string} name */
    const open = (name) => {
      if (name === model.get("chosen")) return;
      keep(name);
      model.set("chosen", name); // at once; the kernel, which is told, agrees
      model.send({ tab: name });
      show();
    };
    /** @type {Record<string, (at: number) => number>} */
    const keys = {
      ArrowRight: (at) => (at + 1) % tabs.length,
      ArrowLeft: (at) => (at + tabs.length - 1) % tabs.length,
      Home: () => 0,
      End: () => tabs.length - 1,
    };
    list.addEventListener("keydown", (event) => {
      const to = keys[event.key]?.(names.indexOf(model.get("chosen")));
      if (to === undefined) return;
      event.preventDefault();
      open(names[to]);
      tabs[to].focus();
    });

    model.on("change:chosen", show);
    // The others beside it are put on the page one by one.
    const watch = new MutationObserver(show);
    whenConnected(el, () => {
      show();
      if (el.parentElement) watch.observe(el.parentElement, { childList: true });
      const last = kept();
      if (names.includes(last)) open(last);
    });
    return () => {
      watch.disconnect();
      model.off("change:chosen", show);
    };
  },
};
