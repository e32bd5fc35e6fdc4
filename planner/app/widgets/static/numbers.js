// Numbers as people type them, read as the kernel reads them (planner's parsing.py):
// tests/data/number_cases.json holds both to the same answers.

const LONGEST = 24;
const PLAIN = /^[0-9][0-9,_ ]*$/;
const HUMAN = /^(?=.{1,20}$)([0-9]+(?:\.[0-9]+(?=[kmgt]))?)([kKmMgGtT])$/;
const DIGITS = "[0-9]+(?:_[0-9]+)*";
const DECIMAL = new RegExp(
  `^\\s*[+-]?(?:${DIGITS}\\.?(?:${DIGITS})?|\\.${DIGITS})(?:[eE][+-]?${DIGITS})?\\s*$`,
);
/** @type {Record<string, number>} */
const FACTORS = {
  ...{ k: 1e3, m: 1e6, g: 1e9, t: 1e12 },
  ...{ K: 1024, M: 1024 ** 2, G: 1024 ** 3, T: 1024 ** 4 },
};

/**
 * Reads a whole number: 8192, 8,192, 8k (8000) or 8K (8192); null where it is none.
 * Before a capital there are no decimals, as vLLM has it.
 *
 * @param {string} text
 * @returns {number | null}
 */
export function wholeNumber(text) {
  if (text.length <= LONGEST && PLAIN.test(text)) {
    return Number(text.replace(/[,_ ]/g, ""));
  }
  const match = HUMAN.exec(text);
  return match ? Math.trunc(Number(match[1]) * FACTORS[match[2]]) : null;
}

/**
 * Reads a number with or without decimals; null where it is none.
 *
 * @param {string} text
 * @returns {number | null}
 */
export function decimalNumber(text) {
  if (text.length > LONGEST || !DECIMAL.test(text)) return null;
  const number = Number(text.replaceAll("_", ""));
  return Number.isFinite(number) ? number : null;
}

/**
 * Returns the place of the step that is next to a number.
 *
 * @param {readonly number[]} steps
 * @param {number} number
 */
export function nearest(steps, number) {
  let best = 0;
  steps.forEach((step, at) => {
    if (Math.abs(step - number) < Math.abs(steps[best] - number)) best = at;
  });
  return best;
}

// Made once: `toLocaleString` makes one for each number.
const FORMAT = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });

/** @param {number} number */
export const spoken = (number) => FORMAT.format(number);

/**
 * Writes 131072 as 131,072, which is easier to read and is read back as well.
 *
 * @param {string} text
 */
export const grouped = (text) => (/^\d{5,}$/.test(text) ? spoken(Number(text)) : text);
