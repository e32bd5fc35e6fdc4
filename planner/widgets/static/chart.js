// A chart by itself; draw.js does the work.

export default {
  render({ model, el }) {
    const undo = [];
    whenConnected(el, () => {
      const node = document.createElement("div");
      el.append(node);
      keepDrawn(model, node, undo);
    });
    return () => undo.forEach((step) => step());
  },
};
