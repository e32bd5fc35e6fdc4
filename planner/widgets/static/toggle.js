// The heading of a section: a button that opens what stands below it.

export default {
  render({ model, el }) {
    const heading = document.createElement("h2");
    heading.className = "pl-section-heading";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "planner-toggle";
    button.textContent = model.get("description");
    button.addEventListener("click", () => {
      model.set("value", !model.get("value"));
      model.save_changes();
    });
    const show = () => {
      button.classList.toggle("mod-active", model.get("value"));
      button.setAttribute("aria-expanded", String(model.get("value")));
    };
    show();
    heading.append(button);
    el.append(heading);
    model.on("change:value", show);
    return () => model.off("change:value", show);
  },
};
