// The legend of the picture: every segment with its size, where names have no room.

import { make } from "./make.js";

/**
 * @typedef {{ name: string, size: string, fill: string }} PictureEntry
 *
 * @param {import("./marks.js").PictureGroup} group
 * @returns {PictureEntry[]}
 */
export function legend(group) {
  /** @type {Map<string, { sizes: string[], fill: string }>} */
  const found = new Map();
  for (const { parts } of group.rows) {
    for (const [name, size, , , fill] of parts) {
      const known = found.get(name) ?? { sizes: [], fill };
      known.sizes.push(size);
      found.set(name, known);
    }
  }
  return [...found].map(([name, { sizes, fill }]) => {
    const number = (/** @type {string} */ text) => Number(text.replaceAll(",", ""));
    const ordered = [...new Set(sizes)].sort((a, b) => number(a) - number(b));
    const span = [ordered[0], ordered.at(-1)].filter(
      (one, at, all) => !at || one !== all[0],
    );
    return { name, size: span.join(" to "), fill };
  });
}

/**
 * @param {HTMLElement} place
 * @param {import("./marks.js").Picture} picture
 * @param {boolean} isShown
 */
export function writeLegend(place, picture, isShown) {
  place.hidden = !isShown;
  if (!isShown) return;
  const groups = picture.groups.map((group) =>
    make(
      "ul",
      {},
      make("li", {}, `${group.unit}:`),
      ...legend(group).map(({ name, size, fill }) => {
        const swatch = make("i");
        swatch.style.background = fill;
        return make("li", {}, swatch, `${name} `, make("b", {}, size));
      }),
    ),
  );
  place.replaceChildren(...groups);
}
