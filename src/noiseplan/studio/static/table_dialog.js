// What is asked of each attribute of a table, and the dialogs for a table, a family and a condition.

import { attributeNames, setEntry } from "./design.js";
import { actions, dialog } from "./dialogs.js";
import { announce, field, h, select } from "./dom.js";
import { counted } from "./numbers.js";
import { change, state } from "./store.js";
import { draftOfEntry, emptyPart, emptyTable, entryOf, familySize, missingIn, waysOf } from "./table_drafts.js";
import { valueText } from "./values.js";

const schema = () => state.view?.schema ?? [];
const seenOf = (name) => schema().find((attribute) => attribute.name === name);

/** Rows that say, for each attribute of a draft, what is asked of it. */
export function asks(draft, redraw, where) {
  return h("ul", { class: "asks" }, draft.parts.map((part) => h("li", { key: `ask:${part.name}` },
    askRow(part, redraw, where))));
}

function askRow(part, redraw, where) {
  const ways = waysOf(seenOf(part.name));
  if (part.way === "kept") ways.unshift(["kept", "as the file says"]);
  const set = (key) => (event) => { part[key] = event.target.value; redraw(); };
  const key = `${where}:${part.name}`;
  return [
    field(part.name, select({ onchange: set("way"), key: `way:${key}` }, part.way, ways)),
    part.way === "groups" ? field(`Groups of ${part.name}`, h("textarea", { rows: 3, value: part.groups, oninput: set("groups"), key: `groups:${key}`, spellcheck: "false" }),
      { hint: groupHint(seenOf(part.name)), wide: true }) : null,
    part.way === "widths" ? field(`Values of ${part.name} in a group`, h("input", { value: part.widths, oninput: set("widths"), key: `widths:${key}`, inputmode: "numeric" }), { hint: "5, or 5, 10 for two levels; single values and all of them are counted too." }) : null,
  ];
}

function groupHint(seen) {
  if (seen?.ordered) return "One on each line: 0..17, or with a name, minors: 0..17. Ends belong to it and may be left out.";
  const [a = "A", b = "B"] = (seen?.labels ?? []).map(valueText);
  return `One on each line: ${a}+${b}, or with a name, both: ${a}+${b}.`;
}

/** Put what a draft means into the study; what stands against it comes back as words. */
export async function putEntry(draft, index) {
  const missing = missingIn(draft);
  if (missing) return missing;
  const { section, entry } = entryOf(draft, schema());
  try {
    await change(index === null ? "add a table" : "change a table", (design) => setEntry(design, section, index, entry), { strict: true });
  } catch (error) {
    return error.message;
  }
  const now = state.view.entries.filter((each) => each.section === section).at(index ?? -1);
  announce(`${index === null ? "Added" : "Changed"}: ${now?.names[0] ?? "the table"}, ${counted(now?.rows ?? 0, "row")}.`);
  return "";
}

/** Change an entry, or write a new one of that kind. */
export async function editEntry(section, index, kind) {
  const draft = index === null ? { ...emptyTable(), kind } : draftOfEntry(state.design[section][index], section, state.design, schema());
  if (index === null && kind === "up_to") draft.ways = Math.min(2, attributeNames(state.design).length);
  const titles = { table: "Table", k: "A family of tables", up_to: "A family of tables", where: "A condition in words", matrix: "Rows of a matrix" };
  let wrong = "";
  await dialog(titles[draft.kind], (close, redraw) => {
    const submit = async (event) => {
      event.preventDefault();
      wrong = await putEntry(draft, index);
      if (wrong) redraw();
      else close();
    };
    return h("form", { method: "dialog", onsubmit: submit },
      contentOf(draft, redraw),
      wrong ? h("p", { class: "wrong", role: "alert" }, wrong) : null,
      actions(h("button", { class: "main" }, index === null ? "Add" : "Apply"), h("button", { type: "button", onclick: () => close() }, "Cancel")));
  });
}

function contentOf(draft, redraw) {
  if (draft.kind === "where") return conditionContent(draft, redraw);
  if (draft.kind === "k" || draft.kind === "up_to") return familyContent(draft, redraw);
  if (draft.kind === "matrix") return [h("p", {}, "The numbers of the matrix are changed in the file. Here it can be given a name."), nameField(draft, redraw)];
  return [chips(draft, redraw), asks(draft, redraw, "dialog"), nameField(draft, redraw)];
}

function nameField(draft, redraw) {
  return field("Name", h("input", { value: draft.name, oninput: (event) => { draft.name = event.target.value; redraw(); }, key: "table-name", autocomplete: "off" }), { hint: "Optional: what targets and output call it.", wide: true });
}

/** Attributes as buttons: pressed ones are in the table. */
export function chips(draft, redraw) {
  const toggle = (name) => () => {
    const there = draft.parts.some((part) => part.name === name);
    draft.parts = there ? draft.parts.filter((part) => part.name !== name) : [...draft.parts, emptyPart(name)];
    redraw();
  };
  const pressed = (name) => draft.parts.some((part) => part.name === name);
  return h("div", { class: "chips", role: "group", "aria-label": "Attributes of the table" }, attributeNames(state.design).map((name) =>
    h("button", { type: "button", class: "chip", key: `chip:${name}`, "aria-pressed": pressed(name) ? "true" : "false", onclick: toggle(name) }, h("bdi", {}, name))));
}

function familyContent(draft, redraw) {
  const names = attributeNames(state.design);
  for (const name of names) if (!draft.parts.some((part) => part.name === name)) draft.parts.push(emptyPart(name));
  const set = (event) => { draft.ways = Math.max(0, Math.min(names.length, Math.round(Number(event.target.value)))); redraw(); };
  return [
    h("div", { class: "row" },
      field("Every table of", select({ key: "family-kind", "data-first": true, onchange: (event) => { draft.kind = event.target.value; redraw(); } }, draft.kind, [["k", "exactly"], ["up_to", "at most"]])),
      field("so many attributes", h("input", { type: "number", min: 0, max: names.length, value: String(draft.ways), onchange: set, key: "family-ways" }))),
    h("p", { class: "preview" }, counted(familySize(draft.kind, draft.ways, names.length), "table")),
    h("details", { key: "family-asks", open: draft.parts.some((part) => part.way !== "each") }, h("summary", {}, "What is asked of each attribute, wherever it occurs"), asks(draft, redraw, "family")),
  ];
}

const SIGNS = {
  ordered: [["<", "is below"], ["<=", "is at most"], [">=", "is at least"], [">", "is above"], ["=", "is"], ["!=", "is not"]],
  plain: [["=", "is"], ["!=", "is not"]],
};
const builder = { name: "", sign: "", value: "" };

function conditionContent(draft, redraw) {
  return [
    field("Condition", h("textarea", { rows: 3, value: draft.where, "data-first": true, spellcheck: "false", key: "condition", oninput: (event) => { draft.where = event.target.value; redraw(); } }),
      { hint: "How many satisfy it: age < 18 and (sex = 'F' or not region in ('north', 'south')). Several, one on each line.", wide: true }),
    builderRow(draft, redraw),
    nameField(draft, redraw),
  ];
}

function builderRow(draft, redraw) {
  const all = schema();
  if (!all.length) return null;
  const seen = all.find((each) => each.name === builder.name) ?? all[0];
  builder.name = seen.name;
  const signs = seen.ordered ? SIGNS.ordered : SIGNS.plain;
  if (!signs.some(([sign]) => sign === builder.sign)) builder.sign = signs[0][0];
  const values = seen.kind === "binned" ? [] : seen.labels.map((label) => [JSON.stringify(label), valueText(label)]);
  if (values.length && !values.some(([value]) => value === builder.value)) builder.value = values[0][0];
  const set = (key) => (event) => { builder[key] = event.target.value; redraw(); };
  const insert = (word) => () => {
    const before = draft.where.trim();
    draft.where = `${before}${before ? ` ${word} ` : ""}${builtCondition(values.length > 0)}`;
    redraw();
  };
  return h("fieldset", { class: "builder" }, h("legend", {}, "Put it together"), h("div", { class: "row" },
    field("Attribute", select({ onchange: set("name"), key: "builder-name" }, builder.name, all.map((each) => [each.name, each.name]))),
    field("Comparison", select({ onchange: set("sign"), key: "builder-sign" }, builder.sign, signs)),
    field("Value", values.length ? select({ onchange: set("value"), key: "builder-value" }, builder.value, values) : h("input", { value: builder.value, oninput: set("value"), key: "builder-edge", inputmode: "decimal" }))),
  h("div", { class: "actions" }, draft.where.trim()
    ? [h("button", { type: "button", onclick: insert("and"), key: "builder-and" }, "and"), h("button", { type: "button", onclick: insert("or"), key: "builder-or" }, "or")]
    : h("button", { type: "button", onclick: insert(""), key: "builder-first" }, "Put in")));
}

function builtCondition(chosen) {
  const plain = /^[\p{L}_][\p{L}\p{N}_]*$/u.test(builder.name);
  const name = plain ? builder.name : `\`${builder.name}\``;
  const value = chosen ? JSON.parse(builder.value) : builder.value.trim();
  const written = typeof value === "string" && chosen ? `'${value.replaceAll("'", "''")}'` : valueText(value);
  return `${name} ${builder.sign} ${written}`;
}
