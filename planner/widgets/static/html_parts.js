// Parts that come with the widget itself.

export default {
  render({ model, el }) {
    const show = () => {
      for (const [name, html] of Object.entries(model.get("parts"))) {
        fill(part(el, name), html);
      }
    };
    show();
    model.on("change:parts", show);
    return () => model.off("change:parts", show);
  },
};
