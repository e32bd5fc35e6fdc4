// The answer in a line: how it stands and where the memory goes, while the verdict itself
// is out of sight. On a phone, and above a verdict that is further down, it is at the end
// of the screen; else above the results.

import { make } from "./make.js";
import { fill } from "./parts.js";

/** Narrower than this, in pixels, the line is at the end of the screen. */
const NARROW = 800;

/** What scrolls in JupyterLab and Notebook 7; in the app it is the page. */
const SCROLLER = ".jp-WindowedPanel-outer";

/**
 * Lets the line and the controls stay in sight in a notebook: its outputs clip what they
 * hold, and what is clipped moves with its output.
 *
 * @param {Element} root
 * @param {Element} scroller
 * @param {(() => void)[]} undo
 */
function unclip(root, scroller, undo) {
  for (let node = root.parentElement; node; node = node.parentElement) {
    if (node === scroller) break;
    if (getComputedStyle(node).overflow === "visible") continue;
    const before = node.style.overflow;
    node.style.overflow = "visible";
    undo.push(() => {
      node.style.overflow = before;
    });
  }
  const { style } = /** @type {HTMLElement} */ (root);
  const measure = () => style.setProperty("--pl-screen", `${scroller.clientHeight}px`);
  const resized = new ResizeObserver(measure);
  resized.observe(scroller);
  undo.push(() => resized.disconnect());
}

/**
 * Adds the line. What it says is announced where the verdict is, so it is for the eyes.
 *
 * @param {Element} root
 * @param {Element} verdict
 * @param {(() => void)[]} undo gets what takes it away
 * @returns {(strip: string) => void} what writes it anew, with the memory as HTML
 */
export function addBar(root, verdict, undo) {
  const words = make("p", { class: "pl-bar-words" });
  const memory = make("div", { class: "pl-bar-memory" });
  const inside = make("div", { class: "pl-bar-inside pl-plan" }, words, memory);
  const bar = make("div", { class: "planner-bar", "aria-hidden": "true" }, inside);
  inside.addEventListener("click", () => verdict.scrollIntoView({ block: "start" }));
  (root.querySelector(".planner-body") ?? root).append(bar);
  const scroller = root.closest(SCROLLER);
  if (scroller) unclip(root, scroller, undo);
  const seen = new IntersectionObserver(
    (entries) => {
      const { intersectionRatio, boundingClientRect } = entries[entries.length - 1];
      // For a verdict that is further down, it is at the end of the screen: above, it
      // would lie over the header. In a notebook, it would lie over other cells.
      const top = scroller?.getBoundingClientRect().top ?? 0;
      const isPassed = boundingClientRect.top < top;
      const isIn = isPassed || root.clientWidth < NARROW || !scroller;
      bar.classList.toggle("pl-is-needed", intersectionRatio < 0.6 && isIn);
      bar.classList.toggle("pl-is-below", !isPassed);
    },
    { threshold: [0, 0.6] },
  );
  seen.observe(verdict);
  undo.push(
    () => seen.disconnect(),
    () => bar.remove(),
  );
  return (strip) => {
    fill(memory, strip);
    const said = verdict.querySelector(".pl-verdict");
    const isStale = root.classList.contains("is-stale");
    /** @param {string} name */
    const text = (name) => said?.querySelector(name)?.textContent?.trim() ?? "";
    bar.className = bar.className.replace(/ pl-(fits|partly|tight|short|refused)/g, "");
    if (!isStale) bar.classList.add(...(said?.classList ?? []));
    bar.classList.remove("pl-verdict");
    const margin = text(".pl-margin");
    const isMissing = margin && !margin.startsWith("+");
    words.textContent = isStale
      ? (root.querySelector(".pl-alert")?.textContent ?? "")
      : `${text(".pl-headline")}${isMissing ? `, ${margin} missing` : ` ${margin}`}`;
  };
}
