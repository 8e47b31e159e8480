// Errors as bars, for the results and for comparisons.

import { h } from "./dom.js";

const part = (x, most) => `${Math.max(0, Math.min(100, (100 * x) / most)).toFixed(2)}%`;

/** A bar with the standard error, a mark at the largest error of a row, and a line at the average. */
export function errorBar(error, largest, average, most) {
  const over = average && error > 1.05 * average;
  return h("div", { class: "bar", "aria-hidden": "true", vars: { w: part(error, most), t: part(largest ?? error, most), a: part(average ?? 0, most) } },
    h("span", { class: over ? "fill over" : "fill" }), largest ? h("span", { class: "tick" }) : null, average ? h("span", { class: "average" }) : null);
}

/** A plain bar from the left. */
export function plainBar(x, most, kind = "") {
  return h("div", { class: "bar", "aria-hidden": "true", vars: { w: part(x, most) } }, h("span", { class: `fill ${kind}` }));
}
