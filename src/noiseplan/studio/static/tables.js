// The area of tables: attributes clicked together, families, conditions; weights and targets.

import { tool } from "./attributes.js";
import { attributeNames, costMode, entryWords, moveEntry, removeEntry, setTarget, targetWidth } from "./design.js";
import { announce, focusKey, h, select } from "./dom.js";
import { counted, roundUp, widthFactor } from "./numbers.js";
import { half, levelsWith, readLevel } from "./plans.js";
import { change, changed, state } from "./store.js";
import { asks, chips, editEntry, putEntry } from "./table_dialog.js";
import { emptyTable } from "./table_drafts.js";

let composed = emptyTable();
let wrong = "";

export function tablesArea() {
  const entries = ["tables", "predicates"].flatMap((section) => (state.design?.[section] ?? []).map((entry, index) => ({ section, index, entry })));
  const named = attributeNames(state.design).length > 0;
  return [
    h("div", { class: "area-head" }, h("h2", { id: "tables-title" }, "Tables"), h("p", { class: "muted" }, totals())),
    entries.length ? h("ol", { class: "pieces" }, entries.map((each) => card(each, entries))) : h("p", { class: "empty" }, named ? "None yet. Click attributes together, and add the table." : "First say what the columns may hold."),
    named ? composer() : null,
  ];
}

function totals() {
  const { tables, rows } = state.view ?? {};
  return tables ? `${counted(tables, "table")}, ${counted(rows, "number")}` : "What is to be published.";
}

function composer() {
  const redraw = () => changed();
  composed.parts = composed.parts.filter((part) => attributeNames(state.design).includes(part.name));
  const add = async () => {
    wrong = await putEntry(composed, null);
    if (!wrong) composed = emptyTable();
    changed();
    if (!wrong) focusKey(`chip:${attributeNames(state.design)[0]}`);
  };
  const total = async () => {
    composed = emptyTable();
    await add();
  };
  return h("div", { class: "composer" },
    h("h3", { id: "composer-title" }, "A new table"),
    chips(composed, redraw),
    asks(composed, redraw, "new"),
    wrong ? h("p", { class: "wrong", role: "alert" }, wrong) : null,
    h("div", { class: "actions" },
      h("button", { type: "button", class: "main", key: "add-table", disabled: !composed.parts.length, onclick: add }, "Add the table"),
      h("button", { type: "button", key: "add-family", onclick: () => editEntry("tables", null, "up_to") }, "Whole families…"),
      h("button", { type: "button", key: "add-condition", onclick: () => editEntry("predicates", null, "where") }, "A condition…"),
      h("button", { type: "button", key: "add-total", onclick: total }, "The total")));
}

const viewOf = (section, index) => state.view?.entries.find((entry) => entry.section === section && entry.index === index);

function card({ section, index, entry }, all) {
  const seen = viewOf(section, index);
  const levels = new Set((state.view?.schema ?? []).flatMap((each) => (each.levels ?? []).map((level) => level.name)));
  const words = entryWords(entry, section, state.design, levels);
  const title = entry.name ?? (seen?.count === 1 ? seen.names[0] : words);
  const key = `${section}:${index}`;
  const alike = all.filter((each) => each.section === section).length;
  return h("li", { class: "card", key: `entry:${key}` },
    h("div", { class: "card-main" },
      h("h3", {}, h("bdi", {}, title)),
      title === words ? null : h("p", { class: "muted" }, h("bdi", {}, words)),
      h("div", { class: "card-foot" }, h("span", { class: "muted" }, seen ? sizeWords(seen) : "not read yet"), wishes(section, index, entry, seen, title))),
    h("div", { class: "card-tools", role: "group", "aria-label": `${title}: change` },
      tool(`edit:${key}`, `Edit ${title}`, "Edit", () => editEntry(section, index)),
      tool(`up:${key}`, `Move ${title} up`, "↑", () => move(section, index, -1), index === 0),
      tool(`down:${key}`, `Move ${title} down`, "↓", () => move(section, index, 1), index === alike - 1),
      tool(`remove:${key}`, `Remove ${title}`, "✕", () => removeOne(section, index, title))));
}

function sizeWords(seen) {
  return seen.count === 1 ? counted(seen.rows, "row") : `${counted(seen.count, "table")}, ${counted(seen.rows, "row")}`;
}

async function move(section, index, by) {
  await change("move a table", (design) => moveEntry(design, section, index, by));
  focusKey(`${by < 0 ? "up" : "down"}:${section}:${index + by}`) ?? focusKey(`edit:${section}:${index + by}`);
  announce(`Moved to place ${index + by + 1}.`);
}

async function removeOne(section, index, title) {
  await change(`remove ${title}`, (design) => removeEntry(design, section, index));
  announce(`${title} removed.`);
  focusKey("add-family");
}

/** How much a table counts; where accuracy goes first, how exact it must be. */
function wishes(section, index, entry, seen, title) {
  const targets = typeof state.design.targets === "object";
  if (targets || costMode(state.design) === "targets") return targetField(section, index, seen, title);
  const set = (event) => {
    const weight = Number(event.target.value);
    if (!(weight > 0)) {
      event.target.value = String(entry.weight ?? 1);
      return null;
    }
    return change(`weight of ${title}`, (design) => {
      if (weight === 1) delete design[section][index].weight;
      else design[section][index].weight = weight;
    });
  };
  return h("label", { class: "inline" }, h("span", {}, "Weight"),
    h("input", { type: "number", class: "short", min: "0.001", step: "any", value: String(entry.weight ?? 1), onchange: set, key: `weight:${section}:${index}`, "aria-label": `Weight of ${title}` }));
}

function targetField(section, index, seen, title) {
  const names = seen?.names ?? [];
  const all = typeof state.design.targets === "object" ? state.design.targets : {};
  const wide = (level) => widthFactor(level, costMode(state.design) === "pure_dp");
  const found = targetWidth(all[names[0]], wide) ?? (typeof state.design.targets === "number" ? targetWidth(state.design.targets, wide) : null);
  const put = (width, level) => change(`target of ${title}`, (design) => setTarget(design, names, width > 0 ? { half_width: width, level } : null));
  const level = found?.level ?? 0.95;
  if (seen && seen.count > names.length) return h("p", { class: "hint" }, "So many tables get their targets in the file.");
  return h("div", { class: "inline" }, h("span", {}, "±"),
    h("input", { type: "number", class: "short", min: "0", step: "any", placeholder: "none", value: found ? String(Number(found.width.toPrecision(6))) : "", key: `target:${section}:${index}`, "aria-label": `Target of ${title}: plus or minus`, onchange: (event) => put(Number(event.target.value), level) }),
    h("span", {}, "at"),
    select({ key: `level:${section}:${index}`, "aria-label": `Level of the target of ${title}`, onchange: (event) => found && put(found.width, Number(event.target.value)) }, String(level), levelsWith(level)));
}

/** Targets for all tables at hand: what the present plan reaches, rounded up. */
export function targetsFrom(result, factor) {
  return Object.fromEntries(result.tables.map((table) => [table.name, { half_width: roundUp(table.std_error * factor * half(result)), level: readLevel() }]));
}
