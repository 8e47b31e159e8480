// Two designs side by side.

import { errorBar } from "./bars.js";
import { dialog } from "./dialogs.js";
import { field, h, select } from "./dom.js";
import { run } from "./jobs.js";
import { aligned, percent, shown } from "./numbers.js";
import { half, levelWords, planning } from "./plans.js";
import { state } from "./store.js";

const planned = new Map(); // results by text, so that a design is planned once

function choices() {
  const list = [["now", "the design that is open", state.text]];
  if (state.file.text !== null && state.file.text !== state.text) list.push(["file", `${state.file.name}, as saved`, state.file.text]);
  return [...list, ...state.variants.map((variant) => [`variant:${variant.name}`, variant.name, variant.text])];
}

async function planOf(text, side, redraw, view) {
  if (text === planning.text && planning.result) planned.set(text, planning.result);
  if (planned.has(text)) return;
  try {
    const ended = await run({ kind: "plan", text, client: `${state.client}-${side}` }, { signal: view.signal });
    if (ended.state === "done") planned.set(text, ended.result);
    else view.wrong[side] = ended.error?.message ?? "It was not planned.";
  } catch (error) {
    if (view.signal.aborted) return;
    view.wrong[side] = error.message;
  }
  redraw();
}

export async function compareDesigns() {
  const abort = new AbortController();
  const view = { left: choices()[1]?.[0] ?? "now", right: "now", wrong: {}, signal: abort.signal };
  await dialog("Compare two designs", (close, redraw) => {
    const all = choices();
    const textOf = (key) => all.find(([each]) => each === key)?.[2] ?? state.text;
    const take = (side) => (event) => {
      view[side] = event.target.value;
      delete view.wrong[side];
      redraw();
    };
    for (const side of ["left", "right"]) if (!planned.has(textOf(view[side])) && !view.wrong[side] && view[`asked-${side}`] !== textOf(view[side])) {
      view[`asked-${side}`] = textOf(view[side]);
      planOf(textOf(view[side]), side, redraw, view);
    }
    if (all.length < 2) return h("p", {}, "There is only one design yet. Keep a variant of it (“Variants”, in the bar above), change the design, and compare the two.");
    const options = all.map(([key, words]) => [key, words]);
    return [
      h("div", { class: "row" },
        field("One design", select({ key: "compare-left", onchange: take("left"), "data-first": true }, view.left, options)),
        field("The other", select({ key: "compare-right", onchange: take("right") }, view.right, options))),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Comparison" }, comparison(planned.get(textOf(view.left)), planned.get(textOf(view.right)), view, options)),
    ];
  }, { wide: true });
  abort.abort();
}

function comparison(left, right, view, options) {
  for (const side of ["left", "right"]) if (view.wrong[side]) return h("p", { class: "wrong", role: "alert" }, `${options.find(([key]) => key === view[side])?.[1]}: ${view.wrong[side]}`);
  if (!left || !right) return h("p", { role: "status" }, h("progress", { "aria-label": "Planning" }), " planning both…");
  const words = (key) => options.find(([each]) => each === key)?.[1];
  const names = [...new Set([...left.tables, ...right.tables].map((table) => table.name))];
  const of = (result) => new Map(result.tables.map((table) => [table.name, table]));
  const [a, b] = [of(left), of(right)];
  const [wide, other] = [half(left), half(right)];
  const most = Math.max(...[left, right].flatMap((result) => result.tables.map((table) => (table.largest ?? table.std_error) * half(result))));
  return h("table", { class: "comparison" },
    h("caption", { class: "muted" }, `± is half of the ${levelWords()} interval.`),
    h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col" }, h("bdi", {}, words(view.left))), h("th", { scope: "col" }, h("bdi", {}, words(view.right))), h("th", { scope: "col", class: "n" }, "Change"))),
    h("tbody", {},
      fact("Cost", left.privacy.currencies[0].value, right.privacy.currencies[0].value, ratio(left.privacy.rho, right.privacy.rho)),
      fact("Finds somebody in at most", `${shown(left.privacy.success)} of 100`, `${shown(right.privacy.success)} of 100`, ratio(left.privacy.success, right.privacy.success)),
      fact("Average error", plusMinus(left.rmse, wide), plusMinus(right.rmse, other), ratio(left.rmse * wide, right.rmse * other)),
      fact("Largest error", plusMinus(left.largest, wide), plusMinus(right.largest, other), ratio(left.largest * wide, right.largest * other)),
      fact("Tables", shown(left.queries), shown(right.queries), null)),
    h("tbody", {}, inOrder(names, a, b).map((name) => tableRow(name, a.get(name), b.get(name), { left, right, most }))));
}

/** Tables of both designs first, then those of one; each by their errors. */
function inOrder(names, a, b) {
  const size = (name) => (b.get(name) ?? a.get(name)).std_error;
  const both = (name) => a.has(name) && b.has(name);
  return names.sort((m, n) => both(n) - both(m) || size(n) - size(m));
}

function fact(name, left, right, change) {
  return h("tr", { class: "fact" }, h("th", { scope: "row" }, name), h("td", {}, left), h("td", {}, right), changeCell(change));
}

const plusMinus = (error, wide) => (error === null || error === undefined ? "–" : `± ${aligned(error * wide)}`);
const ratio = (from, to) => (from && to ? to / from - 1 : null);

function changeCell(change) {
  if (change === null || change === undefined) return h("td", { class: "n" }, "");
  if (Math.abs(change) < 0.0005) return h("td", { class: "n muted" }, "same");
  return h("td", { class: change < 0 ? "n better" : "n worse" }, `${change > 0 ? "+" : "−"}${percent(Math.abs(change), 2)}`);
}

function tableRow(name, one, other, { left, right, most }) {
  const [a, b] = [half(left), half(right)];
  const cell = (table, result, wide) => h("td", {}, table ? [plusMinus(table.std_error, wide), errorBar(table.std_error * wide, table.largest && table.largest * wide, result.rmse * wide, most)] : h("span", { class: "muted" }, "not asked"));
  return h("tr", { key: `compare:${name}` }, h("th", { scope: "row" }, h("bdi", {}, name)), cell(one, left, a), cell(other, right, b), changeCell(one && other ? ratio(one.std_error * a, other.std_error * b) : null));
}
