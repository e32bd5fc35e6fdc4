// Tells the server that the page goes away, and the visitor that the kernel did.
(() => {
  /** @type {{ baseUrl: string, kernelId: string }} */
  const { baseUrl, kernelId } = JSON.parse(
    document.getElementById("jupyter-config-data")?.textContent ?? "",
  );
  const ASK_AGAIN_MS = 3000;
  const ANSWER_MS = 3000;
  const LOST = "The connection is lost. Trying again …";
  const ENDED = "This page's session has ended. ";
  /** @type {HTMLElement | undefined} */
  let bar;

  /**
   * @param {string} text
   * @param {string} [link]
   */
  const show = (text, link) => {
    if (!bar) {
      bar = document.createElement("div");
      bar.id = "planner-connection";
      bar.setAttribute("role", "alert");
      document.body.append(bar);
    }
    bar.textContent = text;
    if (!link) return;
    const again = document.createElement("a");
    // The address holds the plan, so nothing is lost.
    again.href = window.location.href;
    again.textContent = link;
    bar.append(again);
  };
  const hide = () => {
    bar?.remove();
    bar = undefined;
  };

  // Whether the kernel lives; the server may be out of reach for a while.
  const ask = async () => {
    try {
      const answer = await fetch(`${baseUrl}api/kernels/${kernelId}`);
      if (answer.ok) return hide();
      // 403: the server was started again, with another token.
      if ([403, 404].includes(answer.status))
        return show(ENDED, "Load it again with this plan");
    } catch {
      // no answer: as below
    }
    show(LOST);
    setTimeout(ask, ASK_AGAIN_MS);
  };

  const Socket = window.WebSocket;
  window.WebSocket = class extends Socket {
    /** @param {ConstructorParameters<typeof WebSocket>} given */
    constructor(...given) {
      super(...given);
      /** @type {ReturnType<typeof setTimeout> | undefined} */
      this.waiting = undefined;
      if (!this.url.includes(kernelId)) return;
      this.addEventListener("open", hide);
      this.addEventListener("close", () => setTimeout(ask, 500));
      this.addEventListener("message", () => {
        clearTimeout(this.waiting);
        this.waiting = undefined;
      });
    }

    // A kernel that ended may leave the socket open: what is sent gets no answer.
    /** @param {Parameters<WebSocket["send"]>[0]} data */
    send(data) {
      super.send(data);
      if (this.url.includes(kernelId)) this.waiting ??= setTimeout(ask, ANSWER_MS);
    }
  };

  let isLeaving = false;
  window.addEventListener("pagehide", () => {
    isLeaving = true;
    navigator.sendBeacon(`${baseUrl}voila/api/shutdown/${kernelId}`);
  });
  // A page from the browser's memory has no kernel any more.
  window.addEventListener("pageshow", ({ persisted }) => {
    if (persisted || isLeaving) window.location.reload();
  });
})();
