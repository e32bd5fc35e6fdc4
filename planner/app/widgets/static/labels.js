// Where the words of the picture go: a name in its segment, where that is wide enough, or
// below it on a leader line. Pure arithmetic in pixels, so that laws can be tested.

/**
 * @typedef {[name: string, size: string, start: number, end: number, fill: string,
 *   ink: string, from?: number, to?: number]} PicturePart start and end in GiB; its name
 *   keeps between `from` and `to`
 * @typedef {(text: string) => number} Measure the width of a text
 *
 * @typedef {object} PictureLabel
 * @property {string} name
 * @property {string[]} lines
 * @property {boolean} inside whether it is in the segment
 * @property {number} x its middle
 * @property {number} width
 * @property {number} from the middle of its segment
 * @property {string} ink
 */

export const GAP = 10;
const INSIDE_PIXELS = 10; // beside a text in its segment
const USUAL_SIZE = "00.00 GiB";
const TICK_PIXELS = 72;

/**
 * Breaks a name over two lines, as evenly as its words allow.
 *
 * @param {string} name
 * @returns {string[]}
 */
export function broken(name) {
  const words = name.split(" ");
  let best = [name];
  let longest = name.length;
  for (let at = 1; at < words.length; at += 1) {
    const lines = [words.slice(0, at).join(" "), words.slice(at).join(" ")];
    const most = Math.max(lines[0].length, lines[1].length);
    if (most < longest) [best, longest] = [lines, most];
  }
  return best;
}

/** @param {string[]} lines @param {Measure} measure */
const widest = (lines, measure) => Math.max(...lines.map(measure));

/**
 * Returns the width that a row of labels needs if none is in its segment. Sizes count as
 * long as they usually are, so that a moving slider does not change the way of drawing.
 *
 * @param {[name: string, size: string][]} labels
 * @param {Measure} measure
 */
export function neededWidth(labels, measure) {
  return labels.reduce((sum, [name, size]) => {
    const lines = [...broken(name), USUAL_SIZE, `${size} GiB`];
    return sum + GAP + widest(lines, measure);
  }, -GAP);
}

/**
 * Puts labels in a row beside each other, in their order and each as near to its middle
 * as the others allow: neighbours that would overlap share their distance (isotonic
 * regression). None overlaps if `room` holds them all.
 *
 * @param {{ from: number, width: number }[]} labels ordered by `from`
 * @param {number} room the row goes from 0 to here
 * @returns {number[]} their middles
 */
export function spread(labels, room) {
  /** @type {{ sum: number, count: number }[]} */
  const pools = [];
  /** @type {number[]} */
  const offsets = [];
  let offset = 0;
  for (const { from, width } of labels) {
    offsets.push(offset);
    let pool = { sum: from - width / 2 - offset, count: 1 };
    offset += width + GAP;
    for (let last = pools.at(-1); last; last = pools.at(-1)) {
      if (last.sum / last.count <= pool.sum / pool.count) break;
      pools.pop();
      pool = { sum: last.sum + pool.sum, count: last.count + pool.count };
    }
    pools.push(pool);
  }
  const most = Math.max(room - (offset - GAP), 0);
  const starts = pools.flatMap(({ sum, count }) =>
    Array(count).fill(Math.min(Math.max(sum / count, 0), most)),
  );
  return labels.map(({ width }, at) => starts[at] + offsets[at] + width / 2);
}

/**
 * Labels the segments of a bar.
 *
 * @param {PicturePart[]} parts
 * @param {(gib: number) => number} place where a size is, in pixels from the bar's start
 * @param {number} room the chart's width
 * @param {boolean} leaders whether names may be below their segments
 * @param {Measure} measure
 * @param {number} [most] lines that the bar has room for
 * @returns {PictureLabel[]}
 */
export function labelled(parts, place, room, leaders, measure, most = 3) {
  /** @type {PictureLabel[]} */
  const found = [];
  for (const [name, size, one, other, , ink, start = one, end = other] of parts) {
    const from = place(start + end) / 2;
    const forms = [
      [name, `${size} GiB`],
      [...broken(name), `${size} GiB`],
    ];
    const lines = forms.find(
      (form) =>
        form.length <= most &&
        widest(form, measure) <= place(end - start) - INSIDE_PIXELS,
    );
    if (!lines && !leaders) continue;
    const chosen = lines ?? forms[1];
    const width = widest(chosen, measure);
    found.push({ name, lines: chosen, inside: !!lines, x: from, width, from, ink });
  }
  const below = found.filter(({ inside }) => !inside);
  below.sort((one, other) => one.from - other.from);
  const middles = spread(below, room);
  below.forEach((label, at) => {
    label.x = middles[at];
  });
  return found;
}

// Made once: a `toLocaleString` makes one for each number.
const FORMAT = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });

/**
 * Returns round numbers from 0 to `end`, as many as the width has room for.
 *
 * @param {number} end
 * @param {number} width
 * @returns {{ at: number, text: string }[]}
 */
export function ticks(end, width) {
  const least = end / Math.max(width / TICK_PIXELS, 2);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * ([1, 2, 5].find((times) => times * power >= least) ?? 10);
  const count = Math.floor(end / step) + 1;
  return Array.from({ length: count }, (_, at) => {
    const value = at * step;
    return { at: value, text: FORMAT.format(value) };
  });
}
