// A phone in a room: the question, a vote, and what the check says to it.

import { button } from "./button.js";
import { newId, setText } from "./change.js";
import { edge, emptyBar, field, Sizes } from "./guess_bar.js";
import { make } from "./make.js";
import { follow, here, send } from "./news.js";

/**
 * @typedef {object} Asked
 * @property {string} title
 * @property {string} asked
 * @property {Record<string, string> | null} options
 * @property {import("./guess_bar.js").BarPart[]} [parts] of a bar to guess
 * @property {number} [total]
 *
 * @typedef {object} Phone
 * @property {string} phase
 * @property {number} round
 * @property {Asked | null} question
 * @property {string} side
 * @property {string | Record<string, number> | null} vote
 * @property {string} says
 * @property {string} answer
 */

/**
 * @param {Record<string, string>} options
 * @param {(answer: unknown) => void} vote
 */
function choices(options, vote) {
  const buttons = Object.entries(options).map(([letter, text]) => {
    const node = button(`${letter}: ${text}`);
    node.addEventListener("click", () => {
      for (const other of buttons) other.setAttribute("aria-pressed", "false");
      node.setAttribute("aria-pressed", "true");
      vote(letter);
    });
    return node;
  });
  return make("div", { class: "pr-choices" }, ...buttons);
}

/** @param {(answer: unknown) => void} vote */
function number(vote) {
  const id = newId();
  const input = make("input", {
    id,
    maxlength: 40,
    autocomplete: "off",
    required: true,
  });
  const form = make(
    "form",
    { class: "pr-number" },
    make("label", { for: id }, "A number, with its unit if it has one: 3.5 GiB"),
    input,
    button("Vote", "submit"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    vote(input.value);
  });
  return form;
}

/**
 * @param {import("./guess_bar.js").Bar} bar
 * @param {(answer: unknown) => void} vote
 */
function guess(bar, vote) {
  const sizes = new Sizes(bar);
  const yours = emptyBar(bar.parts, "Your bar");
  const fields = make("div", { class: "pg-fields" });
  const views = [() => yours.write(sizes.all, bar.total)];
  const changed = () => {
    for (const view of views) view();
  };
  bar.parts.forEach((part, at) => {
    if (at !== sizes.rest) views.push(edge(yours.bar, part.name, sizes, at, changed));
    views.push(field(fields, part, sizes, at, changed));
  });
  const sent = button("Vote");
  sent.addEventListener("click", () => {
    const free = bar.parts.map(({ name }, at) => [name, sizes.all[at]]);
    vote(Object.fromEntries(free.filter((_, at) => at !== sizes.rest)));
  });
  changed();
  return make("div", {}, yours.node, fields, sent);
}

/** @param {Asked} question @param {(answer: unknown) => void} vote */
function ask({ options, parts, total }, vote) {
  if (options) return choices(options, vote);
  if (parts && total) return guess({ parts, total }, vote);
  return number(vote);
}

/** @param {Phone} state */
function says({ phase, round, vote, says: said, answer }) {
  if (!phase) return "Wait for a question.";
  if (answer) return `${said && `Your vote: ${said} `}The answer: ${answer}`;
  if (phase !== "asked")
    return said || "Look at the screen, and talk to your neighbour.";
  if (vote === null) return round > 1 ? "Vote again." : "";
  return "Your vote is counted. You can change it until the votes are shown.";
}

/** @type {import("@anywidget/types").AnyWidget} */
export default {
  render({ el }) {
    el.classList.add("planner-room");
    const title = make("h2", { class: "pg-title" });
    const asked = make("p", { class: "pr-asked" });
    const place = make("div");
    const status = make("p", { role: "status", class: "pr-says" });
    const wrong = make("p", { role: "alert" });
    el.append(title, asked, place, status, wrong);
    let shown = "";
    const vote = async (/** @type {unknown} */ answer) => {
      const isTaken = await send(`${here()}/vote`, { answer });
      setText(
        status,
        isTaken
          ? "Your vote is counted. You can change it until the votes are shown."
          : "That was not counted: write a number, or wait until something is asked.",
      );
    };
    /** @param {Phone} state */
    const show = (state) => {
      const { question, phase, round, side } = state;
      const isBar = Boolean(question?.parts);
      setText(title, question?.title ?? "The room");
      setText(
        asked,
        question
          ? `${question.asked}${isBar ? ` You play for side ${side}.` : ""}`
          : "",
      );
      // A field that somebody types in stays as it is.
      const now = phase === "asked" ? `${question?.title} ${round}` : "";
      if (now !== shown)
        place.replaceChildren(...(now && question ? [ask(question, vote)] : []));
      shown = now;
      setText(status, says(state));
    };
    follow(`${here()}/news`, show, (words) => setText(wrong, words));
  },
};
