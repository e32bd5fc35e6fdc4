// Runs before everything else: what Voila's scripts call, and what must not be missed.
(() => {
  // A script that could not be loaded says so once; chart.js looks for it later.
  document.addEventListener("error", ({ target }) => {
    if (target?.id === "planner-plotly") target.dataset.failed = true;
  }, true);
  window.cellLoaded = true;
  window.display_cells = () => document.getElementById("loading")?.remove();
  for (const name of ["voila_heartbeat", "voila_process", "voila_finish",
    "update_loading_text"]) window[name] = () => {};
})();
