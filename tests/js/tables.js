// Tables of cases that the scripts share with Python.

import { readFileSync } from "node:fs";

/** @param {string} name @returns {any} */
export function table(name) {
  const path = new URL(`../data/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(path, "utf8"));
}
