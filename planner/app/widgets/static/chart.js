// A chart by itself; draw.js does the work.

import { whenConnected } from "./connected.js";
import { keepDrawn } from "./draw.js";
import { make } from "./make.js";

/** @type {import("@anywidget/types").AnyWidget<import("./draw.js").Drawn>} */
export default {
  render({ model, el }) {
    /** @type {(() => void)[]} */
    const undo = [];
    whenConnected(el, () => {
      const node = make("div");
      el.append(node);
      keepDrawn(model, node, undo);
    });
    return () => {
      for (const step of undo) step();
    };
  },
};
