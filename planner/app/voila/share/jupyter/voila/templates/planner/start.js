// Runs before everything else: what Voila's scripts call, and when they start.
(() => {
  const called = [
    "display_cells",
    "update_loading_text",
    "voila_finish",
    "voila_heartbeat",
    "voila_process",
  ];
  for (const name of called) Object.assign(window, { [name]: () => {} });

  // The start address holds the owner's token: the cookie has it now, and a link to the
  // plan must not.
  const { search, hash, pathname } = window.location;
  const rest = search.replace(/([?&])token=[^&]*&?/, "$1").replace(/[?&]$/, "");
  if (rest !== search) {
    window.history.replaceState(null, "", `${pathname}${rest}${hash}`);
  }

  // Before anything is drawn: the theme that the visitor chose in the header.
  try {
    const theme = window.localStorage.getItem("planner-theme") ?? "";
    if (theme === "light" || theme === "dark") {
      document.documentElement.dataset.theme = theme;
    }
  } catch {
    // Nothing is kept here.
  }

  // The word that the controls are starting goes when they are there.
  const alive = ".planner-explorer:not(.planner-snapshot)";
  new MutationObserver((_, watch) => {
    if (!document.querySelector(alive)) return;
    document.getElementById("loading")?.remove();
    watch.disconnect();
  }).observe(document, { childList: true, subtree: true });

  // The first chart comes first: Voila's scripts are on their way meanwhile, and run in
  // their order once plotly.js is there, or is known to be missing.
  const scripts = document.currentScript?.dataset.scripts ?? "[]";
  const start = () => {
    for (const source of JSON.parse(scripts)) {
      const script = document.createElement("script");
      script.async = false;
      script.src = source;
      document.head.append(script);
    }
  };
  /** @param {Event} event */
  const heard = ({ type, target }) => {
    if (!(target instanceof HTMLElement) || target.id !== "planner-plotly") return;
    if (type === "error") target.dataset.failed = "true"; // draw.js looks for it
    document.removeEventListener("load", heard, true);
    document.removeEventListener("error", heard, true);
    start(); // before the page's own load event, for which Voila's scripts wait
  };
  document.addEventListener("load", heard, true);
  document.addEventListener("error", heard, true);
})();
