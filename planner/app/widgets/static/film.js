// A start on film: the learner draws how full the GPU is at each moment, then watches
// vLLM take its memory, with the log beside it; last the planner's bar lands on it.

import { newId, setAttribute, setText } from "./change.js";
import { make } from "./make.js";
import { draw } from "./pen.js";

/**
 * @typedef {[frame: number, title: string, caption: string]} FilmMoment
 * @typedef {[name: string, fill: string]} FilmUse
 *
 * @typedef {object} Film sizes in MiB
 * @property {string} words
 * @property {string} gpu
 * @property {boolean} draw
 * @property {string} axis
 * @property {number} total
 * @property {[at: number, size: number] | null} budget
 * @property {FilmUse[]} uses the first is at the bottom
 * @property {number[][]} frames each: its place, 0 to 1000, then the size of each use
 * @property {number[]} seconds
 * @property {FilmMoment[]} moments
 * @property {[frame: number, text: string][]} lines
 * @property {{ sizes: number[], words: string } | null} bar
 */

const WIDE = 1000; // of the picture's own units, in both directions
const FRAME_MS = 70;
const HOLD_MS = 2600; // at a moment, to read its caption
const KEYS = /** @type {Record<string, number>} */ ({
  ArrowUp: 0.5,
  ArrowRight: 0.5,
  ArrowDown: -0.5,
  ArrowLeft: -0.5,
  PageUp: 4,
  PageDown: -4,
  Home: -1e6,
  End: 1e6,
});

/** @param {number} mib */
export const gib = (mib) => `${(mib / 1024).toFixed(2)} GiB`;

/** @param {number[]} frame */
export const taken = ([, ...sizes]) => sizes.reduce((sum, size) => sum + size, 0);

/**
 * Returns the outline of a use: its steps from the left, and those below it back.
 *
 * @param {number[][]} frames
 * @param {number} at of the use
 * @param {number} total
 */
export function outline(frames, at, total) {
  const height = (/** @type {number[]} */ frame, /** @type {number} */ uses) =>
    WIDE - (WIDE * taken([0, ...frame.slice(1, uses + 1)])) / total;
  const steps = (/** @type {number} */ uses) =>
    frames.flatMap((frame, index) => {
      const y = height(frame, uses).toFixed(1);
      const next = frames[index + 1]?.[0] ?? WIDE;
      return [`${frame[0]},${y}`, `${next},${y}`];
    });
  const below = steps(at).reverse();
  return `M${[...steps(at + 1), ...below].join("L")}Z`;
}

/** @param {string} text */
const button = (text) => make("button", { type: "button", class: "pp-button" }, text);

/** @param {string} caption @param {string[]} titles @param {string[][]} rows */
function table(caption, titles, rows) {
  const kind = (/** @type {string} */ text) =>
    / GiB$/.test(text) ? "pl-number" : null;
  const cell = (/** @type {string} */ text, /** @type {number} */ at) =>
    make(at ? "td" : "th", { scope: at ? null : "row", class: kind(text) }, text);
  const heads = titles.map((text, at) =>
    make("th", { scope: "col", class: kind(rows[0][at]) }, text),
  );
  return make(
    "table",
    { class: "pl-lines" },
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell)))),
  );
}

/** The picture: areas, lines of the card and the budget, the cursor and the bar. */
class Picture {
  /** @param {Film} film */
  constructor(film) {
    this.film = film;
    const { frames, moments, uses, total, budget, gpu, bar } = film;
    const id = newId();
    this.clip = draw("rect", { x: 0, y: 0, width: 0, height: WIDE });
    const areas = uses.map(([, fill], at) =>
      draw("path", { d: outline(frames, at, total), fill }),
    );
    this.drawing = draw("polyline", { class: "pf-drawing", points: "" });
    const svg = draw(
      "svg",
      {
        viewBox: `0 0 ${WIDE} ${WIDE}`,
        preserveAspectRatio: "none",
        "aria-hidden": "true",
      },
      draw("defs", {}, draw("clipPath", { id }, this.clip)),
      draw("g", { "clip-path": `url(#${id})` }, ...areas),
      this.drawing,
    );
    this.cursor = make("i", { class: "pf-cursor" });
    this.bar = make("div", { class: "pf-bar", "aria-hidden": "true" });
    this.bar.hidden = true;
    bar?.sizes.forEach((size, at) => {
      const part = make("i", {});
      part.style.height = `${(100 * size) / total}%`;
      part.style.background = uses[at][1];
      this.bar.append(part);
    });
    const numbers = moments.map(([frame], at) => {
      const number = make("span", { class: "pf-number" }, String(at + 1));
      number.style.left = `${this.x(frame)}%`;
      return number;
    });
    this.plot = make("div", { class: "pf-plot" }, svg, this.cursor, ...numbers);
    this.line(total, `${gpu} ${gib(total)}`, "pf-total");
    if (budget) this.line(budget[0], `vLLM's budget ${gib(budget[1])}`, "pf-budget");
    this.node = make("div", { class: "pf-picture" }, this.plot, this.bar);
  }

  /** @param {number} mib @param {string} text @param {string} kind */
  line(mib, text, kind) {
    const node = make("span", { class: `pf-line ${kind}` }, make("span", {}, text));
    node.style.bottom = `${(100 * mib) / this.film.total}%`;
    this.plot.append(node);
  }

  /** @param {number} frame */
  x(frame) {
    return this.film.frames[frame][0] / 10;
  }

  /** @param {number} frame */
  show(frame) {
    this.clip.setAttribute("width", String(this.film.frames[frame][0] + 1));
    this.cursor.style.left = `${this.x(frame)}%`;
  }

  /** @param {boolean} isMoving whether it may be seen to fall */
  land(isMoving) {
    this.bar.hidden = false;
    this.node.classList.add("has-bar");
    this.bar.classList.toggle("is-landing", isMoving);
  }

  /** @param {number[]} sizes */
  write(sizes) {
    const { moments, total } = this.film;
    const points = sizes.map(
      (mib, at) => `${10 * this.x(moments[at][0])},${WIDE - (WIDE * mib) / total}`,
    );
    this.drawing.setAttribute("points", points.join(" "));
  }
}

/**
 * Adds the points that the learner moves: by dragging over the picture, or by keys.
 *
 * @param {Picture} picture
 */
function points(picture) {
  const { film, plot } = picture;
  const over = new AbortController();
  const sizes = film.moments.map(() => film.total / 2);
  const pen = {
    sizes,
    isMoved: false,
    end: () => {
      over.abort();
      plot.classList.remove("is-drawn");
      for (const node of nodes) node.remove();
    },
  };
  const nodes = film.moments.map(([frame, title]) => {
    const node = make("span", {
      class: "pf-point",
      role: "slider",
      tabindex: 0,
      "aria-label": `Taken: ${title}`,
      "aria-valuemin": 0,
      "aria-valuemax": (film.total / 1024).toFixed(2),
    });
    node.style.left = `${picture.x(frame)}%`;
    return node;
  });
  const write = () => {
    nodes.forEach((node, at) => {
      node.style.bottom = `${(100 * sizes[at]) / film.total}%`;
      setAttribute(node, "aria-valuenow", (sizes[at] / 1024).toFixed(2));
      setAttribute(node, "aria-valuetext", gib(sizes[at]));
    });
    picture.write(sizes);
  };
  /** @param {number} at @param {number} mib */
  const set = (at, mib) => {
    sizes[at] = Math.min(Math.max(mib, 0), film.total);
    pen.isMoved = true;
    write();
  };
  nodes.forEach((node, at) => {
    node.addEventListener("keydown", (event) => {
      const step = KEYS[event.key];
      if (step === undefined) return;
      event.preventDefault();
      set(at, sizes[at] + step * 1024);
    });
  });
  /** @param {PointerEvent} event */
  const follow = (event) => {
    const { left, bottom, width, height } = plot.getBoundingClientRect();
    const x = (100 * (event.clientX - left)) / width;
    const near = film.moments.map(([frame]) => Math.abs(picture.x(frame) - x));
    set(
      near.indexOf(Math.min(...near)),
      (film.total * (bottom - event.clientY)) / height,
    );
  };
  /** @param {PointerEvent} event */
  const begin = (event) => {
    plot.setPointerCapture(event.pointerId);
    follow(event);
  };
  /** @param {PointerEvent} event */
  const move = (event) => plot.hasPointerCapture(event.pointerId) && follow(event);
  plot.addEventListener("pointerdown", begin, over);
  plot.addEventListener("pointermove", move, over);
  plot.classList.add("is-drawn");
  plot.append(...nodes);
  write();
  return pen;
}

/**
 * The lines of the log; those that are yet to come are faint.
 *
 * @param {Film["lines"]} lines
 */
function log(lines) {
  const rows = lines.map(([, text]) => make("li", {}, text));
  const attributes = { class: "pf-log", tabindex: 0, "aria-label": "vLLM's log" };
  const node = make("ol", attributes, ...rows);
  /** @param {number} frame */
  const write = (frame) => {
    const said = lines.filter(([at]) => at <= frame).length;
    rows.forEach((row, at) => {
      row.classList.toggle("is-said", at < said);
      setAttribute(row, "aria-current", at === said - 1 ? "true" : null);
    });
    const row = rows[said - 1];
    if (row) node.scrollTop = row.offsetTop - node.clientHeight / 2;
  };
  return { node, write };
}

/** @param {Film["uses"]} uses */
function legend(uses) {
  const sizes = uses.map(() => make("b"));
  const rows = uses.map(([name, fill], at) => {
    const swatch = make("i", { class: "pg-swatch" });
    swatch.style.background = fill;
    return make("li", {}, swatch, `${name} `, sizes[at]);
  });
  /** @param {number[]} frame */
  const write = ([, ...all]) =>
    all.forEach((mib, at) => {
      setText(sizes[at], gib(mib));
      rows[at].classList.toggle("is-none", !mib);
    });
  return { node: make("ul", { class: "pf-legend" }, ...rows), write };
}

/**
 * Shows the film, from the first frame on.
 *
 * @param {HTMLElement} el
 * @param {Picture} picture
 * @param {number[] | null} drawn
 */
function watch(el, picture, drawn) {
  const { film } = picture;
  const { frames, moments, seconds, uses, bar } = film;
  const isStill = window.matchMedia?.("(prefers-reduced-motion: reduce)").matches;
  const last = frames.length - 1;
  const all = moments.map(([frame, title, text]) => [
    title,
    gib(taken(frames[frame])),
    text,
  ]);
  const folded = make("details", {}, make("summary", {}, "All moments as a table"));
  folded.append(table("The start", ["Moment", "Taken", "What happens"], all));
  const said = log(film.lines);
  const list = legend(uses);
  const id = newId();
  const scrub = make("input", { id, type: "range", class: "pp-range", max: last });
  const play = button("Play");
  const back = button("Back");
  const next = button("Next moment");
  const where = make("span", { class: "pk-where" });
  const caption = make("p", { class: "pf-caption", "aria-live": "polite" });
  const result = make("div", { class: "pf-result", role: "status" });
  let at = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const land = () => {
    if (result.firstChild) return;
    if (bar) {
      picture.land(!isStill);
      const sizes = bar.sizes.map((mib, use) => [gib(frames[last][use + 1]), gib(mib)]);
      const rows = uses.map(([name], use) => [name, ...sizes[use]]);
      result.append(make("p", {}, bar.words));
      result.append(table("At the end", ["Use", "The start", "Planned"], rows));
    }
    if (drawn) {
      const rows = all.map(([title, size], moment) => [
        title,
        gib(drawn[moment]),
        size,
      ]);
      result.append(table("Your curve", ["Moment", "Yours", "The start"], rows));
    }
  };
  const show = () => {
    picture.show(at);
    said.write(at);
    list.write(frames[at]);
    const seen = moments.filter(([frame]) => frame <= at);
    const [, title, text] = seen[seen.length - 1];
    setText(caption, `${seen.length}. ${text}`);
    const size = gib(taken(frames[at]));
    setText(where, `${size} taken · ${seconds[at].toFixed(1)} s`);
    scrub.value = String(at);
    scrub.setAttribute("aria-valuetext", `${title}: ${size} taken`);
    back.disabled = !at;
    next.disabled = at === last;
    if (at === last) land();
  };
  const pause = () => {
    clearTimeout(timer);
    timer = undefined;
    setText(play, "Play");
  };
  const step = () => {
    at += 1;
    show();
    const isMoment = moments.some(([frame]) => frame === at);
    if (at === last) pause();
    else timer = setTimeout(step, isMoment ? HOLD_MS : FRAME_MS);
  };
  play.addEventListener("click", () => {
    if (timer) return pause();
    if (at === last) at = 0;
    setText(play, "Pause");
    show();
    timer = setTimeout(step, at ? FRAME_MS : HOLD_MS);
  });
  /** @param {number} frame */
  const go = (frame) => {
    pause();
    at = frame;
    show();
  };
  scrub.addEventListener("input", () => go(Number(scrub.value)));
  next.addEventListener("click", () =>
    go(moments.find(([frame]) => frame > at)?.[0] ?? last),
  );
  back.addEventListener("click", () => {
    const before = moments.filter(([frame]) => frame < at);
    go(before[before.length - 1]?.[0] ?? 0);
  });
  play.hidden = Boolean(isStill);
  const group = { class: "pk-controls", role: "group", "aria-label": "The film" };
  const controls = make("div", group, play, back, next, where);
  const label = make("label", { class: "pf-axis", for: id }, `Scrub: ${film.axis}`);
  el.append(
    make("div", { class: "pf-scrub" }, scrub, label),
    controls,
    caption,
    make("div", { class: "pf-both" }, list.node, said.node),
    result,
    folded,
  );
  show();
  const begin = () => {
    if (!isStill) play.click();
    (isStill ? next : play).focus({ preventScroll: true });
  };
  return { begin, pause };
}

/** @type {import("@anywidget/types").AnyWidget<{ film: Film }>} */
export default {
  render({ model, el }) {
    const film = model.get("film");
    el.classList.add("planner-film");
    const picture = new Picture(film);
    const words = make("p", { class: "pk-words" }, film.words);
    el.append(words, picture.node);
    const pen = points(picture);
    let pause = () => {};
    const open = () => {
      pen.end();
      if (!pen.isMoved) picture.drawing.remove();
      const film = watch(el, picture, pen.isMoved ? pen.sizes : null);
      pause = film.pause;
      return film;
    };
    if (film.draw) {
      const show = button("Show");
      const titles = film.moments.map(([, title]) => make("li", {}, title));
      const asked =
        "Draw first: how full is the card at each moment? Drag over the picture, or " +
        "move the points by arrow keys. Then press Show.";
      const list = make("ol", { class: "pf-titles" }, ...titles);
      const quiz = make("div", {}, make("p", {}, asked), list, show);
      show.addEventListener("click", () => {
        quiz.remove();
        open().begin();
      });
      el.append(quiz);
    } else open();
    return () => pause();
  },
};
