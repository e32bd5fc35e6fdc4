// The heading of a section: a button that opens what stands below it.

import { make } from "./make.js";

/** @type {import("@anywidget/types").AnyWidget<{ description: string, value: boolean }>} */
export default {
  render({ model, el }) {
    const button = make(
      "button",
      { type: "button", class: "planner-toggle" },
      model.get("description"),
    );
    button.addEventListener("click", () => {
      model.set("value", !model.get("value"));
      model.save_changes();
    });
    const show = () => {
      button.classList.toggle("mod-active", model.get("value"));
      button.setAttribute("aria-expanded", String(model.get("value")));
    };
    show();
    el.append(make("h2", { class: "pl-section-heading" }, button));
    model.on("change:value", show);
    return () => model.off("change:value", show);
  },
};
