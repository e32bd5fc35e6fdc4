// A list of rows with buttons. A press is told to the kernel by the row's key; all text
// is set as text, never as markup.

function make(tag, className, text = "") {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
}

function button(model, row, action) {
  const node = make("button", "pl-action", action.label);
  node.type = "button";
  node.dataset.press = `${action.name} ${row.key}`;
  node.setAttribute("aria-label", `${action.label}: ${row.title}`);
  node.addEventListener("click", () =>
    model.send({ press: action.name, row: row.key }));
  return node;
}

function item(model, row) {
  const node = make("li", `pl-row ${row.tone ? `pl-row-${row.tone}` : ""}`);
  const said = make("div", "pl-row-said");
  said.append(make("p", "pl-row-title", row.title));
  if (row.gain) said.append(make("p", "pl-row-gain", row.gain));
  if (row.code) said.append(make("code", "pl-row-code", row.code));
  if (row.detail) said.append(make("p", "pl-row-detail", row.detail));
  const buttons = make("div", "pl-row-buttons");
  buttons.append(...(row.actions ?? []).map((action) => button(model, row, action)));
  node.append(said, buttons);
  return node;
}

// A list that is written anew takes the focus along: to the button that opens and closes
// it, to the one that takes back what was done, else to the heading. Never to another
// row's button: a second press must not do something else.
function keepFocus(el, write) {
  const had = el.contains(document.activeElement);
  const press = document.activeElement?.dataset.press;
  write();
  if (!had || el.contains(document.activeElement)) return;
  const find = (name) => el.querySelector(`[data-press="${CSS.escape(name)}"]`);
  const same = press === "more" ? find(press) : find("undo undo");
  (same || el.querySelector(".pl-list-heading")).focus();
}

export default {
  render({ model, el }) {
    el.classList.add("pl-list");
    let isOpen = false;
    const draw = () => {
      const rows = model.get("rows");
      const count = model.get("shown");
      const few = isOpen ? rows : rows.slice(0, count);
      const heading = make("h2", "pl-list-heading", model.get("heading"));
      heading.tabIndex = -1;
      const list = make("ul", "pl-rows");
      list.append(...few.map((row) => item(model, row)));
      const parts = [heading];
      if (model.get("note")) parts.push(make("p", "pl-list-note", model.get("note")));
      if (few.length) parts.push(list);
      if (rows.length > count) {
        const label = isOpen ? "Show fewer" : `Show all ${rows.length}`;
        const more = make("button", "pl-action pl-more", label);
        more.type = "button";
        more.dataset.press = "more";
        more.setAttribute("aria-expanded", String(isOpen));
        more.addEventListener("click", () => { isOpen = !isOpen; refresh(); });
        parts.push(more);
      }
      // What to beware of is read by who opens the whole list.
      const said = isOpen || rows.length <= count ? model.get("remarks") : [];
      const remarks = said.map((text) => make("li", "", text));
      if (remarks.length) {
        const beware = make("ul", "pl-remarks");
        beware.append(...remarks);
        parts.push(beware);
      }
      el.hidden = !rows.length && !model.get("note");
      el.setAttribute("aria-busy", String(model.get("is_busy")));
      el.replaceChildren(...parts);
    };
    const refresh = () => keepFocus(el, draw);
    const names = ["rows", "note", "heading", "shown", "remarks"];
    for (const name of names) model.on(`change:${name}`, refresh);
    const busy = () => el.setAttribute("aria-busy", String(model.get("is_busy")));
    model.on("change:is_busy", busy);
    draw();
    return () => {
      for (const name of names) model.off(`change:${name}`, refresh);
      model.off("change:is_busy", busy);
    };
  },
};
