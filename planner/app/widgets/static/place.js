// A place for parts of the answer, which fills it; panels tell when a reader opens them.

import { whenConnected } from "./connected.js";
import { copy } from "./copy.js";
import { part } from "./parts.js";

/** @type {import("@anywidget/types").AnyWidget<{ names: string[] }>} */
export default {
  render({ model, el }) {
    el.classList.add("planner-parts");
    for (const name of model.get("names")) part(el, name);
    // A panel that is written anew opens again, which is no press of anyone: it carries
    // what the kernel knows.
    const told = (/** @type {Event} */ { target }) => {
      if (!(target instanceof HTMLDetailsElement)) return;
      const { panel, known } = target.dataset;
      if (!panel || known === String(target.open)) return;
      target.dataset.known = String(target.open);
      model.send({ panel, open: target.open });
    };
    el.addEventListener("toggle", told, true);
    el.addEventListener("click", copy);
    whenConnected(el, () =>
      el.dispatchEvent(new CustomEvent("planner-place", { bubbles: true })),
    );
  },
};
