// Parts of the answer that have no chart: the command, the panels.

export default {
  render({ model, el }) {
    el.classList.add("planner-parts");
    // Filling a panel anew opens it again, which is no press of anyone.
    const isOpen = new Map();
    const told = (event) => {
      const key = event.target.dataset?.panel;
      if (!key || isOpen.get(key) === event.target.open) return;
      isOpen.set(key, event.target.open);
      model.send({ panel: key, open: event.target.open });
    };
    const show = () => {
      const parts = model.get("parts");
      for (const [name, html] of Object.entries(parts)) fill(part(el, name), html);
      fillLinks(el);
      for (const one of el.querySelectorAll("details[data-panel]")) {
        isOpen.set(one.dataset.panel, one.open);
      }
    };
    show();
    model.on("change:parts", show);
    el.addEventListener("toggle", told, true);
    el.addEventListener("click", copy);
    return () => model.off("change:parts", show);
  },
};
