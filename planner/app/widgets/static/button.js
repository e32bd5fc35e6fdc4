// The buttons of a lesson's pieces.

import { make } from "./make.js";

/** @param {string} text @param {"button" | "submit"} [type] */
export const button = (text, type = "button") =>
  make("button", { type, class: "pp-button" }, text);
