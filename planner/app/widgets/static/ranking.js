// Names ranked against what is typed, as the kernel ranks them (planner's ranking.py):
// tests/data/ranking_cases.json holds both to the same order.

const SIGNS = /[-_. ]+/g;
const WORD = /[0-9]+|[a-z]+/g;
const [WHOLE, BEGINS, OWNER_BEGINS, WORD_BEGINS, HOLDS, LETTERS] = [0, 1, 2, 3, 4, 5];

/** @param {string} text */
const plain = (text) => text.toLowerCase().replace(SIGNS, "");

/**
 * Returns where words begin in a name without its signs.
 *
 * @param {string} name
 */
function startsOf(name) {
  const starts = new Set();
  let length = 0;
  for (const piece of name.toLowerCase().split(SIGNS)) {
    for (const { index } of piece.matchAll(WORD)) starts.add(length + index);
    length += piece.length;
  }
  return starts;
}

/**
 * Scores a word, the best with the least; null where the name lacks it.
 *
 * @param {string} word
 * @param {string} whole owner/model, without signs
 * @param {string} name
 */
function scoreOf(word, whole, name) {
  const model = whole.slice(whole.lastIndexOf("/") + 1);
  if (word === model || word === whole) return WHOLE;
  if (model.startsWith(word)) return BEGINS;
  if (whole.startsWith(word)) return OWNER_BEGINS;
  let place = whole.indexOf(word);
  if (place < 0) return null;
  const starts = startsOf(name);
  while (place >= 0 && !starts.has(place)) place = whole.indexOf(word, place + 1);
  return place < 0 ? HOLDS : WORD_BEGINS;
}

/**
 * Adds up the scores of all words; null where the name lacks one.
 *
 * @param {string[]} words
 * @param {string} name
 */
function scoreOfAll(words, name) {
  const whole = plain(name);
  let sum = 0;
  for (const word of words) {
    const score = scoreOf(word, whole, name);
    if (score === null) return null;
    sum += score;
  }
  return sum;
}

/**
 * Whether the letters of every word appear in their order.
 *
 * @param {string[]} words
 * @param {string} name
 */
function hasLetters(words, name) {
  const whole = plain(name);
  return words.every((word) => {
    let at = 0;
    for (const letter of whole) if (letter === word[at]) at += 1;
    return at === word.length;
  });
}

/**
 * Orders names by length (a plain model before its variants), then by name.
 *
 * @param {string} one
 * @param {string} other
 */
const byName = (one, other) => one.length - other.length || (one < other ? -1 : 1);

/**
 * Returns the rows whose name, their first item, holds every word of a text, best first;
 * scattered letters count where no name holds the words. Nothing typed: all rows.
 *
 * @template {readonly [string, ...unknown[]]} Row
 * @param {string} text
 * @param {readonly Row[]} rows
 * @returns {readonly Row[]}
 */
export function ranked(text, rows) {
  const words = text.toLowerCase().split(/\s+/).map(plain).filter(Boolean);
  if (!words.length) return rows;
  let found = rows.map((row) => ({ row, score: scoreOfAll(words, row[0]) }));
  found = found.filter(({ score }) => score !== null);
  if (!found.length) {
    const scattered = rows.filter(([name]) => hasLetters(words, name));
    found = scattered.map((row) => ({ row, score: LETTERS }));
  }
  found.sort((a, b) => (a.score ?? 0) - (b.score ?? 0) || byName(a.row[0], b.row[0]));
  return found.map(({ row }) => row);
}
