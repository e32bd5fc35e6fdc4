// One format of several, chosen by a list; below it what the kernel wrote.

import { isApp, isOfThisMachine } from "./address.js";
import { copy } from "./copy.js";
import { make } from "./make.js";
import { fill, part } from "./parts.js";

const ONLY_HERE = "This address opens on this machine only.";
let lists = 0;

/**
 * @typedef {object} Exported
 * @property {[name: string, title: string][]} formats
 * @property {string} chosen
 * @property {string} html
 */

/**
 * Writes before a link the address of an app: of one that others can open where there is
 * one and this page is this machine's only, else its own, which says so.
 *
 * @param {Element} root
 */
export function fillLinks(root) {
  const page = window.location.origin + window.location.pathname;
  const isHere = isOfThisMachine(window.location);
  /** @type {NodeListOf<HTMLElement>} */
  const links = root.querySelectorAll("code[data-link]");
  for (const code of links) {
    const { base, link } = code.dataset;
    const isOwn = isApp() && !(base && isHere);
    code.textContent = `${isOwn ? page : (base ?? "")}${link}`;
    const box = code.closest(".pl-command");
    if (isOwn && isHere && !box?.nextElementSibling?.matches(".pl-here")) {
      box?.after(make("p", { class: "pl-here" }, ONLY_HERE));
    }
  }
}

/** @type {import("@anywidget/types").AnyWidget<Exported>} */
export default {
  render({ model, el }) {
    el.classList.add("planner-export-view");
    lists += 1;
    const id = `planner-format-${lists}`;
    const select = make("select", { id });
    const list = () => {
      const formats = model.get("formats");
      select.replaceChildren(
        ...formats.map(([value, title]) => make("option", { value }, title)),
      );
    };
    const label = make("label", { for: id, class: "pl-name" }, "format");
    el.append(make("div", { class: "pl-choose" }, label, select));
    const show = () => {
      list();
      select.value = model.get("chosen");
      fill(part(el, "written"), model.get("html"));
      fillLinks(el);
    };
    show();
    select.addEventListener("change", () => model.send({ format: select.value }));
    el.addEventListener("click", copy);
    model.on("change:html change:chosen change:formats", show);
    return () => model.off("change:html change:chosen change:formats", show);
  },
};
