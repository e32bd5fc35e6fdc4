// Guess the bar: the learner sizes the parts of a GPU's memory. Then the planner's bar
// stands below it, with the differences and a score.

import { button } from "./button.js";
import { copyText } from "./copy_text.js";
import { edge, emptyBar, field, points, Sizes, written } from "./guess_bar.js";
import { make } from "./make.js";

/**
 * @typedef {{ name: string, size: number, why: string[], fill: string, ink: string }}
 *   GuessPart sizes in GiB
 * @typedef {object} GuessRound
 * @property {string} title
 * @property {string} question
 * @property {string} subject
 * @property {number} total
 * @property {GuessPart[]} parts
 * @property {string} command
 *
 * @typedef {{ rounds: GuessRound[] }} Guess
 */

/** @param {number} gib */
const signed = (gib) => `${gib < 0 ? "-" : "+"}${written(Math.abs(gib))}`;

/** @param {GuessRound} round @param {number[]} guess */
function comparison({ parts }, guess) {
  const titles = ["Part", "Yours", "Planner", "Difference"];
  const rows = parts.map(({ name, size }, at) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, name),
      ...[written(guess[at]), written(size), signed(guess[at] - size)].map((text) =>
        make("td", { class: "pl-number" }, text),
      ),
    ),
  );
  const heads = titles.map((text, at) =>
    make("th", { scope: "col", class: at ? "pl-number" : null }, text),
  );
  return make(
    "table",
    { class: "pl-lines" },
    make("caption", {}, "In GiB"),
    make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, ...rows),
  );
}

/** @param {GuessRound} round */
function arithmetic({ parts, command }) {
  const folded = make("details", { class: "pl-rank" });
  const lines = parts.flatMap(({ why }) => why.map((text) => make("li", {}, text)));
  folded.append(
    make("summary", {}, "How the planner gets there"),
    make("ul", { class: "pl-notes" }, ...lines),
    make("pre", { class: "pl-plain-command", tabindex: 0 }, command),
  );
  return folded;
}

/**
 * Writes a result to share: the score and the differences, not the answer.
 *
 * @param {GuessRound} round
 * @param {number[]} guess
 */
export function shared(round, guess) {
  const { parts, title, subject, total } = round;
  const actual = parts.map(({ size }) => size);
  const score = points(guess, actual, total);
  const each = parts.map(
    ({ name, size }, at) => `${name} ${signed(guess[at] - size)} GiB`,
  );
  return `${title}: ${score} of 100\n${subject}\n${each.join(" · ")}`;
}

/**
 * @param {HTMLElement} place
 * @param {GuessRound} round
 * @param {() => void} next
 */
function play(place, round, next) {
  const { parts, total } = round;
  const sizes = new Sizes(round);
  const yours = emptyBar(parts, "Your bar");
  const planners = emptyBar(parts, "The planner's bar");
  planners.node.hidden = true;
  const fields = make("div", { class: "pg-fields" });
  /** @type {(() => void)[]} */
  const views = [() => yours.write(sizes.all, total)];
  const changed = () => {
    for (const view of views) view();
  };
  parts.forEach((part, at) => {
    if (at !== sizes.rest) views.push(edge(yours.bar, part.name, sizes, at, changed));
    views.push(field(fields, part, sizes, at, changed));
  });
  const result = make("div", { role: "status", "aria-live": "polite" });
  const details = make("div", { class: "pg-details" });
  const show = button("Show");
  const other = button("Next");
  show.addEventListener("click", () => {
    const actual = parts.map(({ size }) => size);
    const guess = [...sizes.all];
    const score = points(guess, actual, total);
    planners.node.hidden = false;
    views.push(() => planners.write(actual, total));
    changed();
    const text = make("pre", { class: "pl-plain-command", tabindex: 0 });
    text.textContent = shared(round, guess);
    const copied = button("Copy");
    copied.addEventListener("click", () => copyText(copied, text));
    result.replaceChildren(
      make("p", { class: "pg-score" }, make("strong", {}, `${score} of 100`)),
      make(
        "p",
        { class: "pg-formula" },
        "100, minus the differences of all parts as a percentage of the GPU's memory.",
      ),
    );
    details.replaceChildren(
      comparison(round, guess),
      arithmetic(round),
      make("p", { class: "pg-name" }, "To share"),
      text,
      copied,
    );
  });
  other.addEventListener("click", next);
  place.replaceChildren(
    make("h2", { class: "pg-title" }, round.title),
    make("p", {}, round.question),
    make(
      "p",
      { class: "pg-formula" },
      "Drag the edges, move them by arrow keys (0.1 GiB; Page Up and Down: 1 GiB), " +
        "or type numbers. The KV cache is what the others leave.",
    ),
    yours.node,
    planners.node,
    fields,
    make("p", { class: "pk-controls" }, show, other),
    result,
    details,
  );
  changed();
  new ResizeObserver(changed).observe(yours.bar);
}

/** @type {import("@anywidget/types").AnyWidget<Guess>} */
export default {
  render({ model, el }) {
    const rounds = model.get("rounds");
    el.classList.add("planner-guess");
    let at = 0;
    const begin = () =>
      play(el, rounds[at], () => {
        at = (at + 1) % rounds.length;
        begin();
        /** @type {HTMLElement | null} */
        const first = el.querySelector(".pg-edge");
        first?.focus();
      });
    begin();
  },
};
