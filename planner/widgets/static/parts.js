// Pieces of HTML that the kernel wrote, each in a place of its own that is filled again
// when it changes. What the reader opened stays open, and the focus stays where it was.

function part(el, name) {
  const known = el.querySelector(`:scope > [data-part="${name}"]`);
  if (known) return known;
  const node = document.createElement("div");
  node.className = `pl-plan planner-${name}`;
  node.dataset.part = name;
  el.append(node);
  return node;
}

function fill(node, html) {
  if (node.plannerHtml === html) return;
  node.plannerHtml = html;
  const opened = new Map();
  for (const one of node.querySelectorAll("details[data-key]")) {
    opened.set(one.dataset.key, one.open);
  }
  const focused = node.contains(document.activeElement)
    ? document.activeElement.closest("[data-key]")?.dataset.key : undefined;
  node.innerHTML = html;
  node.hidden = !html;
  for (const one of node.querySelectorAll("details[data-key]")) {
    if (opened.has(one.dataset.key)) one.open = opened.get(one.dataset.key);
  }
  makeOpenable(node);
  if (focused === undefined) return;
  const again = node.querySelector(`[data-key="${CSS.escape(focused)}"]`);
  (again?.querySelector("summary, button") ?? again)?.focus();
}

// A line of a table opens to the row below it, which explains it.
function makeOpenable(node) {
  node.plannerOpened ??= new Set();
  for (const line of node.querySelectorAll("tr.pl-line")) {
    const below = line.nextElementSibling;
    const name = line.querySelector(".pl-line-name");
    const key = line.dataset.key;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "pl-opens";
    button.textContent = name.textContent;
    name.replaceChildren(button);
    const set = (isOpen) => {
      below.hidden = !isOpen;
      line.classList.toggle("pl-is-closed", !isOpen);
      button.setAttribute("aria-expanded", String(isOpen));
    };
    set(node.plannerOpened.has(key));
    button.addEventListener("click", () => {
      const isOpen = below.hidden;
      set(isOpen);
      node.plannerOpened[isOpen ? "add" : "delete"](key);
    });
  }
}

// Says in a live region what changed, not again what did not.
function live(node) {
  node.setAttribute("role", "status");
  node.setAttribute("aria-live", "polite");
  node.setAttribute("aria-atomic", "true");
}

async function copy(event) {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    // Without a secure context there is no clipboard: select the text for the user.
    window.getSelection().selectAllChildren(code);
    button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
    return;
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

// A link holds this page's own address where the page is the app.
function fillLinks(root) {
  if (!document.getElementById("planner-plotly")) return;
  const page = window.location.origin + window.location.pathname;
  for (const code of root.querySelectorAll("code[data-link]")) {
    code.textContent = page + code.dataset.link;
  }
}
