// The plan before a control moved, which a picture shows beside the plan of now.

/**
 * @typedef {import("./marks.js").Picture} Picture
 * @typedef {import("./marks.js").PictureGhost} PictureGhost
 */

const REST_MS = 2000;
const GIB = 2 ** 30;
const HUNDREDTHS = new Intl.NumberFormat("en", {
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
});

/**
 * Says by how much a plan differs from another; empty where it does not.
 *
 * @param {import("./marks.js").PicturePlan} now
 * @param {import("./marks.js").PicturePlan} before
 */
export function difference(now, before) {
  if (now.kv_cache_bytes === null || before.kv_cache_bytes === null) return "";
  const bytes = now.kv_cache_bytes - before.kv_cache_bytes;
  const requests = now.requests - before.requests;
  /** @param {number} value */
  const signed = (value) =>
    `${value < 0 ? "-" : "+"}${HUNDREDTHS.format(Math.abs(value))}`;
  if (!bytes && !requests) return "";
  return `KV cache ${signed(bytes / GIB)} GiB, ${signed(requests)} requests at once`;
}

/** The plan before a control moved; it goes when the reader has rested. */
export class GhostOfPlan {
  /** @param {() => void} ended called when it goes */
  constructor(ended) {
    this.ended = ended;
    /** @type {Picture | null} */
    this.rested = null;
    /** @type {Picture | null} */
    this.last = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /**
   * @param {Picture} picture what is drawn now
   * @returns {PictureGhost}
   */
  beside(picture) {
    const { last } = this;
    if (picture !== last) {
      clearTimeout(this.timer);
      const isOther = last?.plan.of !== picture.plan.of;
      if (isOther || !this.rested) this.rested = picture;
      this.last = picture;
      if (this.rested !== picture) {
        this.timer = setTimeout(() => this.rest(), REST_MS);
      }
    }
    if (!this.rested || this.rested === picture) return null;
    const text = difference(picture.plan, this.rested.plan);
    return text ? { picture: this.rested, text } : null;
  }

  rest() {
    this.rested = this.last;
    this.ended();
  }
}
