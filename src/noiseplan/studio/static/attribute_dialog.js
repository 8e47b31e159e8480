// The dialog in which one attribute is written.

import { SOURCES, declaredOf, draftOf, emptyDraft, preview } from "./attribute_drafts.js";
import { attributeNames, setAttribute } from "./design.js";
import { actions, dialog } from "./dialogs.js";
import { announce, field, h, select } from "./dom.js";
import { change, state } from "./store.js";
import { allWhole, splitValues } from "./values.js";

const KINDS = [
  ["categorical", "Categories", "values without an order, such as regions"],
  ["ordinal", "Ordered values", "ages, grades, days: “up to” and ranges make sense"],
  ["binned", "Numbers in bins", "incomes, durations: the edges are public"],
  ["hierarchical", "Hierarchy", "places or codes with levels, such as county within state"],
];

/** Write a new attribute, or change the one of that name. */
export async function editAttribute(name = null) {
  const draft = name === null ? emptyDraft() : draftOf(name, state.design.schema[name]);
  let [wrong, busy] = ["", false];
  await dialog(name === null ? "New attribute" : `Attribute ${name}`, (close, redraw) => {
    const set = (key) => (event) => {
      draft[key] = event.target.type === "checkbox" ? event.target.checked : event.target.value;
      redraw();
    };
    const submit = async (event) => {
      event.preventDefault();
      if (busy) return;
      wrong = await put(draft, name, () => { busy = true; });
      busy = false;
      if (wrong) redraw();
      else close();
    };
    return h("form", { method: "dialog", onsubmit: submit },
      field("Name", h("input", { value: draft.name, oninput: set("name"), "data-first": true, autocomplete: "off", spellcheck: "false", key: "attribute-name" }), { hint: "As the column of the data is called.", wide: true }),
      kindChoice(draft, redraw),
      field("Values are", select({ onchange: set("source"), key: "attribute-source" }, draft.source, SOURCES[draft.kind])),
      valueFields(draft, set),
      h("p", { class: "preview", id: "preview" }, preview(draft)),
      extras(draft, set),
      wrong ? h("p", { class: "wrong", role: "alert" }, wrong) : null,
      actions(h("button", { class: "main" }, name === null ? "Add" : "Apply"), h("button", { type: "button", onclick: () => close() }, "Cancel")));
  });
}

async function put(draft, before, begin) {
  const read = declaredOf(draft);
  if (read.wrong) return read.wrong;
  if (read.name !== before && attributeNames(state.design).includes(read.name)) return `There is an attribute called ${read.name} already.`;
  begin();
  try {
    await change(before === null ? `add ${read.name}` : `change ${before}`, (design) => setAttribute(design, read.name, read.declared, before), { strict: true });
  } catch (error) {
    return error.message;
  }
  announce(before === null ? `Attribute ${read.name} added.` : `Attribute ${read.name} changed.`);
  return "";
}

function kindChoice(draft, redraw) {
  const choose = (kind) => () => {
    draft.kind = kind;
    if (!SOURCES[kind].some(([source]) => source === draft.source)) draft.source = SOURCES[kind][0][0];
    if (kind === "ordinal" && !draft.list) draft.source = "span";
    redraw();
  };
  return h("fieldset", { class: "kinds" }, h("legend", {}, "What it holds"), KINDS.map(([kind, words, example]) =>
    h("label", { class: "kind" },
      h("input", { type: "radio", name: "kind", value: kind, checked: draft.kind === kind, onchange: choose(kind) }),
      h("span", {}, h("b", {}, words), h("small", {}, example)))));
}

function valueFields(draft, set) {
  const text = (label, key, how = {}) => field(label, h("input", { value: draft[key], oninput: set(key), autocomplete: "off", spellcheck: "false", key: `attribute-${key}` }), how);
  const area = (label, key, hint) => field(label, h("textarea", { value: draft[key], oninput: set(key), rows: 6, spellcheck: "false", key: `attribute-${key}` }), { hint, wide: true });
  const file = () => text("File beside the study", "file", { hint: "A public CSV file with a header." });
  switch (draft.source) {
    case "list": return [
      area(draft.kind === "binned" ? "Edges" : "Values", "list", draft.kind === "binned" ? "0, 10, 20, inf: a bin holds its left edge. Dates work too." : "One on each line, or between commas; paste them from a code book, never from the data."),
      draft.kind !== "binned" && allWhole(splitValues(draft.list)) ? check("Keep them as text, not as numbers", draft.asText, set("asText")) : null];
    case "span": return h("div", { class: "row" }, text("from", "from"), text("to", "to"), draft.kind === "binned" ? text("step", "step") : null);
    case "file": return h("div", { class: "row" }, file(), text("Column", "column"), field("Values are", select({ onchange: set("type"), key: "attribute-type" }, draft.type, [["text", "text"], ["integer", "whole numbers"], ["number", "numbers"]])));
    case "levels": return [file(), area("Columns, from the finest to the coarsest", "levels", "One on each line: the column, or “level: column”.")];
    case "codes": return [area("Codes", "codes", "One on each line."), area("Signs of each level", "prefixes", "One on each line: state: 2"), h("div", { class: "row" }, text("The finest level is called", "leaf"), text("Signs to leave out", "ignore"))];
    default: return [h("div", { class: "row" }, file(), text("Column of codes", "column")), area("Signs of each level", "prefixes", "One on each line: state: 2")];
  }
}

function check(label, on, onchange) {
  return h("label", { class: "check" }, h("input", { type: "checkbox", checked: on, onchange }), h("span", {}, label));
}

function extras(draft, set) {
  const cell = (label, key, hint) => field(label, h("input", { value: draft[key], oninput: set(key), autocomplete: "off", key: `attribute-${key}` }), { hint });
  return h("details", { open: Boolean(draft.missing || draft.other || draft.clip), key: "extras" }, h("summary", {}, "Missing, other, beyond the ends"),
    h("div", { class: "row" },
      draft.kind === "hierarchical" ? null : cell("Cell for missing values", "missing", "Its name, as in: not stated. Empty: none may be missing."),
      ["categorical", "hierarchical"].includes(draft.kind) ? cell("Cell for other values", "other", "Its name. Empty: other values are refused.") : null),
    ["ordinal", "binned"].includes(draft.kind) ? check("Values beyond the ends count in the first and last cell", draft.clip, set("clip")) : null);
}
