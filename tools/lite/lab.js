// What the browser-only edition changes in JupyterLab.
//
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
  // On a phone a lesson has the whole screen: no side bars, one document, and prompts
  // as narrow as they can be.
  const onPhone = ({ restored, shell }) => {
    if (!matchMedia("(max-width: 700px)").matches) return;
    const narrow = document.createElement("style");
    narrow.textContent =
      ".jp-Notebook { --jp-cell-prompt-width: 14px; --jp-cell-collapser-width: 4px; }" +
      ".jp-Notebook :is(.jp-InputPrompt, .jp-OutputPrompt) { font-size: 0; padding: 0; }";
    document.head.append(narrow);
    const widen = () => {
      if (shell.mode !== "single-document") shell.mode = "single-document";
      if (!shell.leftCollapsed) shell.collapseLeft();
      if (!shell.rightCollapsed) shell.collapseRight();
      for (const side of ["left", "right"]) {
        if (shell.isSideTabBarVisible(side)) shell.toggleSideTabBarVisibility(side);
      }
    };
    // The toolbar hid Run while it was narrow, and looks again only when it is resized.
    const refit = () => {
      const { toolbar } = shell.currentWidget ?? {};
      if (!toolbar || toolbar.node.querySelector("[data-jp-item-name=run]")) return;
      const { offsetWidth: width, offsetHeight: height } = toolbar.node;
      toolbar.processMessage({ type: "resize", width, height });
    };
    // Again with each change: opening a notebook opens the list of files beside it.
    restored.then(() => {
      widen();
      shell.layoutModified.connect(widen);
      setInterval(refit, 2000);
    });
  };
  let app;
  Object.defineProperty(window, "jupyterapp", {
    configurable: true,
    get: () => app,
    set: (made) => {
      app = made;
      patch(made.serviceManager);
      onPhone(made);
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
