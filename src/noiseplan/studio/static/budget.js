// The area of the budget: how much privacy may be spent, or how exact the tables must be.

import { nearestStop, promised, stopsOf, takeCurrency } from "./costs.js";
import { CURRENCIES, budgetAmount, budgetDelta, costMode, setBudget, setKey } from "./design.js";
import { announce, field, h, select } from "./dom.js";
import { roundUp, shown } from "./numbers.js";
import { errorFactor, planning } from "./plans.js";
import { change, changed, state } from "./store.js";
import { targetsFrom } from "./tables.js";

const NAMES = { zcdp: "ρ", approx_dp: "ε", pure_dp: "ε", gdp: "μ" };
const DELTAS = [1e-6, 1e-9, 1e-12];

export function budgetArea() {
  const mode = costMode(state.design);
  return [
    h("div", { class: "area-head" }, h("h2", { id: "budget-title" }, "Budget"), h("p", { class: "muted" }, "What the publication may reveal about one person.")),
    h("div", { class: "row" },
      field("Chosen by", select({ key: "cost-mode", onchange: (event) => takeMode(event.target.value) }, mode ?? "", modes(mode))),
      CURRENCIES.includes(mode) ? amountFields(mode) : null,
      mode === "reach" ? reachField() : null),
    CURRENCIES.includes(mode) ? slider(mode) : null,
    mode === "targets" ? h("p", { class: "hint" }, "Every table says how exact it must be (± beside it, on the left); the least privacy cost that meets all of them is found. Tables without a target are not planned for.") : null,
    promiseBox(mode),
    h("details", { key: "further" }, h("summary", {}, "Who is protected, what the plan aims at, ledger"), whose(), priorities(), records()),
  ];
}

function modes(mode) {
  const some = Boolean(state.view?.entries.length);
  return [
    ...(mode ? [] : [["", "choose…"]]),
    ["zcdp", "budget: ρ (zero-concentrated)"], ["approx_dp", "budget: ε with δ"], ["pure_dp", "budget: pure ε (Laplace noise)"],
    ...(mode === "gdp" ? [["gdp", "budget: μ (Gaussian)"]] : []),
    ["targets", "accuracy first: ± for each table", !some && mode !== "targets"], ["reach", "accuracy first: the average error", !some && mode !== "reach"],
  ];
}

async function takeMode(mode) {
  const reached = planning.result ? { result: planning.result, factor: errorFactor() } : null;
  await change("what decides the cost", (design) => {
    if (CURRENCIES.includes(mode)) takeCurrency(design, mode);
    else if (mode === "targets") takeTargets(design, reached);
    else if (mode === "reach") takeReach(design, reached);
    else return false;
    return true;
  });
}

function withoutAim(design) {
  delete design.budget;
  delete design.targets;
  setKey(design, "plan", "at_most", null);
  setKey(design, "plan", "objective", null);
}

function takeTargets(design, reached) {
  withoutAim(design);
  const names = state.view.entries.flatMap((entry) => entry.names);
  design.targets = reached?.result.tables.length
    ? targetsFrom(reached.result, reached.factor)
    : Object.fromEntries(names.map((name) => [name, { half_width: 100, level: 0.95 }]));
}

function takeReach(design, reached) {
  withoutAim(design);
  design.plan = { ...design.plan, objective: "rmse", at_most: reached?.result.rmse ? roundUp(reached.result.rmse * reached.factor) : 10 };
}

function reachField() {
  const set = (event) => {
    const most = Number(event.target.value);
    if (most > 0) change("the average error", (design) => { design.plan.at_most = most; });
    else changed();
  };
  const objective = state.design.plan.objective ?? "total";
  const words = { rmse: "Average standard error, at most", worst: "Largest variance, at most", total: "Total variance, at most" }[objective] ?? "The objective, at most";
  return field(words, h("input", { type: "number", min: "0", step: "any", value: String(state.design.plan.at_most), onchange: set, key: "reach" }), { hint: "The least privacy cost that reaches it is found." });
}

function slider(currency) {
  const delta = budgetDelta(state.design);
  const stops = stopsOf(currency, delta);
  const amount = state.moving?.value ?? budgetAmount(state.design);
  return stops ? rangeInput(currency, delta, stops, amount) : h("p", { class: "muted" }, "…");
}

function amountFields(currency) {
  const delta = budgetDelta(state.design);
  const amount = state.moving?.value ?? budgetAmount(state.design);
  const input = h("input", { type: "number", min: "0", step: "any", value: String(amount), key: "amount", onchange: (event) => put(currency, Number(event.target.value), delta) });
  const choice = () => h("input", { type: "number", min: "0", max: "1", step: "any", list: "deltas", value: String(delta), key: "delta", onchange: (event) => putDelta(currency, Number(event.target.value)) });
  const usual = () => h("datalist", { id: "deltas" }, DELTAS.map((each) => h("option", { value: String(each) })));
  return h("div", { class: "amounts" }, field(NAMES[currency], input), currency === "approx_dp" ? [field("δ", choice()), usual()] : null);
}

function putDelta(currency, delta) {
  if (delta > 0 && delta < 1) return put(currency, budgetAmount(state.design), delta);
  announce("δ is a number above zero and far below one over the number of people, as 1e-9 is.");
  return changed();
}

function rangeInput(currency, delta, stops, amount) {
  const at = nearestStop(stops, amount);
  const move = (event) => {
    const stop = stops[Number(event.target.value)];
    state.moving = { ...stop, pure_epsilon: currency === "pure_dp" ? stop.value : null };
    changed();
  };
  const rest = (event) => put(currency, stops[Number(event.target.value)].value, delta);
  const words = `${NAMES[currency]} = ${shown(amount)}, found in at most ${shown(stops[at].success)} of 100 cases`;
  return h("div", { class: "range" },
    h("label", { for: "budget-slider" }, "Less is safer, more is more exact"),
    h("input", { type: "range", id: "budget-slider", min: 0, max: stops.length - 1, step: 1, value: String(at), oninput: move, onchange: rest, key: "slider", "aria-valuetext": words }),
    h("div", { class: "range-ends", "aria-hidden": "true" }, h("span", {}, "safer"), h("span", {}, "more exact")));
}

async function put(currency, amount, delta) {
  if (!(amount > 0) || !Number.isFinite(amount)) {
    announce("A budget is a number above zero.");
    return changed();
  }
  return change("the budget", (design) => setBudget(design, currency, amount, delta), { merge: true });
}

/** The plain sentence, with a picture of it, and all that goes with it. */
function promiseBox(mode) {
  const privacy = promised();
  if (!privacy) return mode && !CURRENCIES.includes(mode) ? h("p", { class: "empty" }, planning.state === "running" ? "The least budget is being looked for…" : "The least budget is shown once it is found.") : null;
  const success = state.moving?.success ?? privacy.success;
  const unit = privacy.unit ?? (state.design.people ? state.design.people.unit ?? "person" : "record");
  const first = state.moving ? null : privacy.currencies.find((each) => each.meaning === "as decided");
  return h("div", { class: "promise" },
    first ? h("p", { id: "decided" }, "Within ", h("b", {}, first.value), ", as decided.") : null,
    h("p", { class: "sentence", id: "sentence" }, `A method with 5 % false alarms finds a ${unit} in at most `, h("b", {}, `${shown(success)} %`), " of cases."),
    meter(success),
    mode && !CURRENCIES.includes(mode) ? h("p", { id: "least" }, "The least budget that does it: ", h("b", {}, privacy.currencies[0].value)) : null,
    (privacy.doubts ?? []).map((doubt) => h("p", { class: "warning" }, doubt)),
    h("details", { key: "promise-more" }, h("summary", {}, "The promise in full, and in every currency"),
      privacy.sentences.map((sentence) => h("p", {}, sentence)),
      h("dl", { class: "currencies" }, privacy.currencies.map((each) => h("div", {}, h("dt", {}, each.name), h("dd", {}, h("b", {}, each.value), " ", h("span", { class: "muted" }, each.meaning)))))));
}

/** From 5 of 100, what anybody reaches by guessing, to what the publication adds at most. */
function meter(success) {
  return h("div", { class: "meter", role: "img", "aria-label": `5 of 100 without the publication, at most ${shown(success)} of 100 with it`, vars: { from: "5%", to: `${Math.min(100, success)}%` } },
    h("div", { class: "meter-track" }, h("span", { class: "meter-base" }), h("span", { class: "meter-more" })),
    h("div", { class: "meter-words", "aria-hidden": "true" }, h("span", {}, "0"), h("span", {}, "guessing finds 5 of 100"), h("span", {}, "100")));
}

function whose() {
  const people = state.design.people ?? {};
  const put = (key, value) => change("whose records they are", (design) => {
    setKey(design, "people", key, value);
    if (!design.people?.person) delete design.people;
  });
  return h("fieldset", {}, h("legend", {}, "Who is protected"),
    field("What may differ", select({ key: "neighbours", onchange: (event) => change("neighbours", (design) => setKey(design, "plan", "neighbours", event.target.value === "replace" ? "replace" : null)) }, state.design.plan?.neighbours ?? "add-remove",
      [["add-remove", "whether somebody is among the data at all"], ["replace", "what a record says; the total is public"]]), { wide: true }),
    h("div", { class: "row" },
      field("Column of persons", h("input", { value: people.person ?? "", key: "person", autocomplete: "off", onchange: (event) => put("person", event.target.value.trim()) }), { hint: "Says whose record it is. Empty: each record is a person of its own." }),
      people.person ? field("Records of one that count", h("input", { type: "number", min: 1, step: 1, value: String(people.max_rows ?? 1), key: "max-rows", onchange: (event) => put("max_rows", Math.max(1, Math.round(Number(event.target.value)))) }), { hint: "Of more, so many are chosen at random." }) : null,
      people.person ? field("Called", h("input", { value: people.unit ?? "person", key: "unit", onchange: (event) => put("unit", event.target.value.trim() === "person" ? "" : event.target.value.trim()) }), { hint: "person, household, …" }) : null));
}

const OBJECTIVES = [["total", "the average is small"], ["worst", "the largest is small"], ["p", "in between (4-norm)"]];
const WEIGHTINGS = [["rows", "every number counts the same"], ["tables", "every table counts the same, and each condition"], ["sqrt", "in between"]];

function priorities() {
  const plan = state.design.plan ?? {};
  const objective = typeof plan.objective === "object" ? "p" : plan.objective === "rmse" ? "total" : plan.objective ?? "total";
  const fixed = ["targets", "reach"].includes(costMode(state.design)) || state.design.targets !== undefined;
  const aim = { total: null, worst: "worst", p: { p: 4 } };
  return h("fieldset", {}, h("legend", {}, "What the plan aims at"), h("div", { class: "row" },
    field("Errors: that", select({ key: "objective", disabled: fixed, onchange: (event) => change("the aim", (design) => setKey(design, "plan", "objective", aim[event.target.value])) }, objective, OBJECTIVES), { hint: fixed ? "Decided by the accuracy asked for." : undefined }),
    field("Tables: that", select({ key: "weighting", onchange: (event) => change("the weighting", (design) => setKey(design, "plan", "weighting", event.target.value === "rows" ? null : event.target.value)) }, plan.weighting ?? "rows", WEIGHTINGS))));
}

function records() {
  const ledger = state.design.ledger ?? {};
  const put = (key) => (event) => change("the ledger", (design) => {
    setKey(design, "ledger", key, event.target.value.trim());
    if (!design.ledger?.file) delete design.ledger;
    else if (!design.ledger.dataset) design.ledger.dataset = "data";
  });
  return h("fieldset", {}, h("legend", {}, "Ledger and output"), h("div", { class: "row" },
    field("Ledger", h("input", { value: ledger.file ?? "", key: "ledger-file", autocomplete: "off", onchange: put("file") }), { hint: "A file in which every release is recorded first." }),
    ledger.file ? field("Dataset in it", h("input", { value: ledger.dataset ?? "", key: "ledger-dataset", onchange: put("dataset") })) : null,
    ledger.file ? field("Purpose", h("input", { value: ledger.purpose ?? "", key: "ledger-purpose", onchange: put("purpose") })) : null,
    field("Output folder", h("input", { value: state.design.output?.folder ?? "", key: "output-folder", onchange: (event) => change("the output folder", (design) => setKey(design, "output", "folder", event.target.value.trim())) }), { hint: "Where a release goes; it must be new." })));
}
