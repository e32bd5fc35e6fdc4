// Lessons share one Python: the second notebook that is opened joins the first one's
// kernel, and starts at once. One for each would take 150 MB and some seconds each.
(() => {
  const patch = ({ sessions }) => {
    const start = sessions.startNew.bind(sessions);
    let before = Promise.resolve();
    // One after the other: notebooks that are opened again together share it too.
    sessions.startNew = (options, connect) => {
      const next = async () => {
        await sessions.refreshRunning();
        const [running] = sessions.running();
        const id = running?.kernel?.id;
        return start(id ? { ...options, kernel: { id } } : options, connect);
      };
      const started = before.then(next);
      before = started.catch(() => {});
      return started;
    };
  };
  let app;
  Object.defineProperty(window, "jupyterapp", {
    configurable: true,
    get: () => app,
    set: (made) => {
      app = made;
      patch(made.serviceManager);
    },
  });

  // A link to a page of the documentation leads to the site's, not to a file.
  window.addEventListener(
    "click",
    (event) => {
      const link = event.target.closest?.("a[href*='/files/docs/']");
      const [, page, place = ""] = link?.href.match(/docs\/(.+)\.md(#.*)?$/) ?? [];
      if (!page) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      window.open(`../docs/${page}.html${place}`, "_blank");
    },
    true,
  );
})();
