// The area of results: every table's error as a bar, live, and how good the plan is.

import { errorBar } from "./bars.js";
import { effectsBox } from "./effects.js";
import { expected, expectedBox, expectedOf, relativeWords } from "./expected.js";
import { h, select } from "./dom.js";
import { aligned, counted, listed, percent, shown } from "./numbers.js";
import { cancelPlan, errorFactor, half, levelsWith, levelWords, plan, planning, readLevel, reading, sameQuestions } from "./plans.js";
import { changed, plannable, state } from "./store.js";

const FEW = 40;
const show = { sort: "std_error", all: false };

export function resultsArea() {
  const result = planning.result;
  return [
    h("div", { class: "area-head" }, h("h2", { id: "results-title" }, "What you get"), stateLine()),
    planning.state === "failed" ? h("p", { class: "wrong", role: "alert" }, planning.error?.message ?? String(planning.error)) : null,
    result && state.view?.entries.length ? body(result) : waiting(),
  ];
}

function waiting() {
  const needed = (state.view?.problems ?? []).filter((problem) => problem.kind === "missing");
  if (needed.length) return h("ul", { class: "needed" }, needed.map((problem) => h("li", {}, problem.message)));
  return planning.state === "running" ? null : h("p", { class: "empty" }, "The errors of every table will be shown here. No data is read for that.");
}

function stateLine() {
  if (planning.state === "running") {
    const { message, fraction, seconds } = planning.progress ?? {};
    return h("div", { class: "progress" },
      h("progress", { "aria-label": "Planning", ...(fraction ? { value: fraction, max: 1 } : {}) }),
      h("span", { class: "muted" }, `${message || "planning"}${seconds > 1 ? `, ${seconds.toFixed(0)} s` : ""}`),
      h("button", { type: "button", class: "small", onclick: cancelPlan, key: "cancel-plan" }, "Cancel"));
  }
  if (planning.state === "cancelled") return h("div", { class: "progress" }, h("span", { class: "muted" }, "Not planned: cancelled."), h("button", { type: "button", class: "small", onclick: plan, disabled: !plannable(), key: "cancel-plan" }, "Plan"));
  if (planning.result && sameQuestions()) return h("p", { class: "muted" }, state.moving ? "scaled as the slider moves" : "planned; no data was read");
  return null;
}

function body(result) {
  if (result.data_aware) return [h("p", {}, "This planner looks at the data before it chooses, so the errors are not known before a release."), agreement(result)];
  const factor = errorFactor();
  return h("div", { class: sameQuestions() ? "" : "stale", "aria-busy": planning.state === "running" ? "true" : "false" },
    summary(result, factor),
    favoured(result),
    agreement(result),
    tableOf(result, factor),
    levelsOf(result, factor),
    expectedBox(), effectsBox(),
    h("details", { key: "printed" }, h("summary", {}, "As the command line prints it"), h("pre", { tabindex: "0" }, result.printed)));
}

function summary(result, factor) {
  const card = (id, name, value, more) => h("div", {}, h("dt", {}, name), h("dd", { id }, value), more ? h("dd", { class: "muted small" }, more) : null);
  const wide = factor * half(result);
  return h("dl", { class: "figures" },
    card("rmse", "Average error", `± ${aligned(result.rmse * wide)}`, `half of the ${levelWords()} interval, root mean square`),
    card("largest", "Largest error", result.largest === null ? "–" : `± ${aligned(result.largest * wide)}`, `half of the ${levelWords()} interval of the worst cell`),
    card("gap", "From the optimum", gapWords(result), result.lower_bound === null ? "no bound is known" : "proved for this question"));
}

function gapWords(result) {
  if (result.gap === null || result.gap === undefined) return "not known";
  return result.gap < 5e-5 ? "none" : `≤ ${percent(Math.ceil(result.gap * 1e5) / 1e5, 2)}`;
}

function favoured(result) {
  const names = (tables) => listed(tables.map((table) => table.name), 2);
  const low = result.tables.filter((table) => table.ratio < 0.8).sort((a, b) => a.ratio - b.ratio);
  const high = result.tables.filter((table) => table.ratio > 1.25).sort((a, b) => b.ratio - a.ratio);
  if (!low.length && !high.length) return h("p", {}, "No table is much better or worse off than the average.");
  return h("p", {}, low.length ? `Favoured: ${names(low)}, up to ${percent(1 - low[0].ratio, 2)} below the average. ` : "", high.length ? `Worst off: ${names(high)}, up to ${percent(high[0].ratio - 1, 2)} above the average.` : "");
}

/** Which tables add up to each other. */
function agreement(result) {
  return result.agreement ? h("p", { id: "agreement" }, result.agreement) : null;
}

const SORTS = [["std_error", "largest error first"], ["small", "smallest error first"], ["order", "as in the study"], ["rows", "most rows first"]];

function sorted(tables) {
  const by = { std_error: (a, b) => b.std_error - a.std_error, small: (a, b) => a.std_error - b.std_error, order: () => 0, rows: (a, b) => b.rows - a.rows, relative: (a, b) => (expectedOf(b.name)?.relative ?? -1) - (expectedOf(a.name)?.relative ?? -1) };
  return [...tables].sort(by[show.sort] ?? by.std_error);
}

function tableOf(result, factor) {
  const rows = sorted(result.tables);
  const shownRows = show.all ? rows : rows.slice(0, FEW);
  const withTargets = rows.some((table) => table.target !== null);
  const withExpected = expected.of !== null;
  // The scale of the bars is that of the plan at rest, so that moving the budget is seen.
  const z = half(result);
  const most = Math.max(...result.tables.map((table) => table.largest ?? table.std_error)) * Math.max(1, factor) * z;
  const sorts = withExpected ? [...SORTS, ["relative", "largest relative error first"]] : SORTS;
  const head = (words, n = true) => h("th", { scope: "col", class: n ? "n" : "" }, words);
  return [
    h("div", { class: "tools" }, h("label", { for: "sort" }, "Sorted"), select({ id: "sort", key: "sort", onchange: (event) => { show.sort = event.target.value; changed(); } }, show.sort, sorts), h("label", { for: "level" }, "± at"), select({ id: "level", key: "level", onchange: (event) => { reading.level = Number(event.target.value); changed(); } }, String(readLevel()), levelsWith(readLevel())), h("span", { class: "legend muted" }, h("i", { class: "key fill" }), "±, half of the interval", h("i", { class: "key tick" }), "worst cell", h("i", { class: "key average" }), "average")),
    h("table", { class: "errors", id: "errors" },
      h("caption", { class: "unseen" }, "Expected errors of every table"),
      h("thead", {}, h("tr", {}, head("Table", false), head("Rows"), head("Error ±"), head("Worst ±"), withTargets ? head("Target ±") : null, withExpected ? [head("Rel. std. error"), head("Useless cells")] : null)),
      h("tbody", {}, shownRows.map((table) => row(table, result, factor * z, most, { withTargets, withExpected })))),
    rows.length > FEW ? h("button", { type: "button", key: "all-tables", onclick: () => { show.all = !show.all; changed(); } }, show.all ? "Show fewer" : `Show all ${counted(rows.length, "table")}`) : null,
  ];
}

function row(table, result, wide, most, { withTargets, withExpected }) {
  const error = table.std_error * wide;
  const found = withExpected ? relativeWords(expectedOf(table.name)) : null;
  return h("tr", { key: `row:${table.section}:${table.index}:${table.name}`, "data-table": table.name },
    h("th", { scope: "row" }, h("bdi", {}, table.name), table.tables > 1 ? ` and ${table.tables - 1} like it` : "", errorBar(error, table.largest === null ? null : table.largest * wide, result.rmse * wide, most)),
    h("td", { class: "n rows" }, table.rows.toLocaleString("en")),
    h("td", { class: "n std" }, aligned(error)), h("td", { class: "n largest" }, aligned(table.largest === null ? null : table.largest * wide)),
    withTargets ? h("td", { class: "n target" }, aligned(table.target === null ? null : table.target * half(result))) : null,
    withExpected ? [h("td", { class: "n" }, found.relative), h("td", { class: "n" }, found.useless)] : null);
}

function levelsOf(result, factor) {
  if (!result.levels?.length) return null;
  const names = Object.keys(result.levels[0]);
  const text = (key, value) => (typeof value !== "number" ? String(value ?? "–") : /error|largest|rmse/.test(key) ? shown(value * factor) : value.toLocaleString("en"));
  return h("details", { key: "levels" }, h("summary", {}, "Standard errors by level"), h("table", {},
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name.replaceAll("_", " "))))),
    h("tbody", {}, result.levels.map((each) => h("tr", {}, names.map((name) => h("td", {}, text(name, each[name]))))))));
}
