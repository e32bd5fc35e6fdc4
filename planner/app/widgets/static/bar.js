// The answer in a line: how it stands and where the memory goes, while the verdict itself
// is out of sight. On a phone it is at the end of the screen, else above the results.

import { make } from "./make.js";
import { fill } from "./parts.js";

/** Narrower than this, in pixels, the line is at the end of the screen. */
const NARROW = 800;

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
  const seen = new IntersectionObserver(
    (entries) => {
      const { intersectionRatio, boundingClientRect } = entries[entries.length - 1];
      // Above a verdict that is further down, it would lie over the header.
      const isPassed = boundingClientRect.top < 0 || root.clientWidth < NARROW;
      bar.classList.toggle("pl-is-needed", intersectionRatio < 0.6 && isPassed);
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
      : `${text(".pl-headline")} ${margin}${isMissing ? " missing" : ""}`;
  };
}
