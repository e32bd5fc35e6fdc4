// One format of several, chosen by a list; below it what the kernel wrote.

import { copy, fillLinks } from "./copy.js";
import { make } from "./make.js";
import { fill, part } from "./parts.js";

let lists = 0;

/**
 * @typedef {object} Exported
 * @property {[name: string, title: string][]} formats
 * @property {string} chosen
 * @property {string} html
 */

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
