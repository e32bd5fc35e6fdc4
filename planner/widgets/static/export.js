// One format of several, chosen by a list; below it what the kernel wrote.

let lists = 0;

export default {
  render({ model, el }) {
    el.classList.add("planner-export-view");
    const label = document.createElement("label");
    const select = document.createElement("select");
    select.id = `planner-format-${++lists}`;
    label.htmlFor = select.id;
    label.className = "pl-name";
    label.textContent = "format";
    for (const [name, title] of model.get("formats")) {
      select.add(new Option(title, name));
    }
    const row = document.createElement("div");
    row.className = "pl-choose";
    row.append(label, select);
    el.append(row);
    const show = () => {
      select.value = model.get("chosen");
      fill(part(el, "written"), model.get("html"));
      fillLinks(el);
    };
    show();
    select.addEventListener("change", () => model.send({ format: select.value }));
    el.addEventListener("click", copy);
    model.on("change:html change:chosen", show);
    return () => model.off("change:html change:chosen", show);
  },
};
