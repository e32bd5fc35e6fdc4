// What the kernel read and wrote, with buttons: a press is told by its name.

import { copy } from "./copy.js";
import { fill, part } from "./parts.js";

/** @type {import("@anywidget/types").AnyWidget<{ html: string }>} */
export default {
  render({ model, el }) {
    el.classList.add("planner-read");
    el.addEventListener("click", (event) => {
      copy(event);
      const { target } = event;
      const pressed = target instanceof Element && target.closest("[data-press]");
      if (pressed) model.send({ press: pressed.getAttribute("data-press") });
    });
    const show = () => fill(part(el, "read-inside"), model.get("html"));
    model.on("change:html", show);
    show();
    return () => model.off("change:html", show);
  },
};
