// Expected counts, from a guess or from a public table of an earlier year: what the errors amount to.

import { post } from "./api.js";
import { field, h } from "./dom.js";
import { percent, shown } from "./numbers.js";
import { errorFactor, planning } from "./plans.js";
import { WARNING, contentOf, fileInput, publicBox } from "./public_file.js";
import { changed, state } from "./store.js";

export const expected = {
  way: "guess", total: "", limit: 50, confirmed: false, file: null, countColumn: "",
  tables: new Map(), notes: [], of: null, wrong: "", busy: false,
};

const source = () => (expected.way === "guess"
  ? { total: Number(expected.total) }
  : { file: { ...expected.file, ...(expected.countColumn.trim() ? { count_column: expected.countColumn.trim() } : {}) } });
const given = () => (expected.way === "guess" ? Number(expected.total) > 0 : Boolean(expected.file));

/** Ask again where the errors are others now. */
export function refreshExpected() {
  if (expected.of && planning.result && expected.of !== planning.result && !expected.busy) ask();
}

export const expectedOf = (name) => expected.tables.get(name) ?? null;

async function ask() {
  const result = planning.result;
  if (!result || !given()) return;
  expected.busy = true;
  try {
    const found = await post("/api/expected", {
      text: planning.text, ...source(), limit: expected.limit / 100,
      plan: result.tables.map(({ name, std_error, largest }) => ({ name, std_error, largest })),
    });
    expected.tables = new Map(found.tables.map((table) => [table.name, table]));
    expected.notes = found.notes ?? [];
    Object.assign(expected, { of: result, wrong: "" });
  } catch (error) {
    Object.assign(expected, { wrong: error.message, of: null, tables: new Map() });
  }
  expected.busy = false;
  changed();
}

function clear() {
  Object.assign(expected, { tables: new Map(), notes: [], of: null, wrong: "", total: "", file: null, confirmed: false });
  changed();
}

export function expectedBox() {
  const set = (key) => (event) => { expected[key] = event.target.value; changed(); };
  const submit = (event) => { event.preventDefault(); ask(); };
  const radio = (way, words) => h("label", { class: "check" }, h("input", { type: "radio", name: "expected-way", checked: expected.way === way, onchange: () => { expected.way = way; changed(); } }), h("span", {}, words));
  return h("details", { key: "expected" }, h("summary", {}, "Is that exact enough? Compare with counts you expect"),
    h("form", { onsubmit: submit },
      h("fieldset", {}, h("legend", {}, "Counts"), radio("guess", "A guess: so many people in all, spread evenly"), radio("file", "A public table of an earlier year")),
      expected.way === "guess"
        ? field("People in all", h("input", { type: "number", min: 1, step: 1, value: expected.total, oninput: set("total"), key: "expected-total" }))
        : fileFields(set),
      h("div", { class: "row" }, field("A cell is useless above a relative standard error of, %", h("input", { type: "number", min: 1, step: "any", value: String(expected.limit), onchange: (event) => { expected.limit = Number(event.target.value) || 50; changed(); }, key: "expected-limit" }))),
      h("div", { class: "actions" }, h("button", { class: "main", disabled: !given() || !planning.result || expected.busy, key: "expected-go" }, "Compare with these"),
        expected.of ? h("button", { type: "button", onclick: clear, key: "expected-clear" }, "Leave out") : null)),
    expected.wrong ? h("p", { class: "wrong", role: "alert" }, expected.wrong) : null,
    expected.notes.map((note) => h("p", { class: "muted" }, note)),
    worst());
}

function fileFields(set) {
  const take = async (file) => {
    try {
      expected.file = file ? { name: file.name, content: await contentOf(file), confirmed: expected.confirmed } : null;
      expected.wrong = "";
    } catch (error) {
      expected.wrong = error.message;
    }
    changed();
  };
  return [
    h("p", { class: "warning" }, WARNING),
    publicBox(expected.confirmed, (on) => { expected.confirmed = on; if (!on) expected.file = null; changed(); }),
    fileInput(expected.confirmed, "The table, CSV: columns called as the attributes, and one of counts", take),
    field("Column of counts", h("input", { value: expected.countColumn, oninput: set("countColumn"), key: "count-column" }), { hint: "Empty: the one column that is no attribute; without one, each line counts once." }),
  ];
}

/** Relative error and share of useless cells of one table, as two short texts. */
export function relativeWords(found) {
  if (!found || found.useless === null) return { relative: "–", useless: found?.note ?? "–" };
  const factor = state.moving ? errorFactor() : 1;
  const relative = found.relative === null ? "∞" : percent(found.relative * factor, 2);
  return { relative, useless: found.useless > 0 ? percent(found.useless, 2) : "none" };
}

function worst() {
  const rows = [...expected.tables.values()].flatMap((table) => (table.worst ?? []).map((cell) => ({ table: table.name, ...cell })))
    .filter((cell) => cell.relative === null || cell.relative > expected.limit / 100).sort((a, b) => (b.relative ?? Infinity) - (a.relative ?? Infinity)).slice(0, 12);
  if (!expected.of) return null;
  if (!rows.length) return h("p", { class: "good" }, `No cell has a relative standard error above ${shown(expected.limit)} %.`);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Cells that will be useless" }, h("table", { class: "worst" },
    h("caption", {}, "Cells that will be useless at that size, the worst first"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Table"), h("th", { scope: "col" }, "Cell"), h("th", { scope: "col", class: "n" }, "Expected"), h("th", { scope: "col", class: "n" }, "Rel. std. error"))),
    h("tbody", {}, rows.map((cell) => h("tr", {}, h("td", {}, h("bdi", {}, cell.table)), h("td", {}, h("bdi", {}, cell.label)), h("td", { class: "n" }, shown(cell.expected, 3)), h("td", { class: "n" }, cell.relative === null ? "∞" : percent(cell.relative, 2)))))));
}
