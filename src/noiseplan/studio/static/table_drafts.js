// A table, family or condition while it is being written, from and to an entry of the study.

import { attributeNames } from "./design.js";
import { readQuestion, setPartsText } from "./questions.js";
import { readGroups } from "./values.js";

const WORDS = ["prefix", "ranges", "total"];

export const emptyPart = (name) => ({ name, way: "each", groups: "", widths: "", level: "", held: null });

export const emptyTable = () => ({ kind: "table", parts: [], name: "", ways: 2, where: "", rest: {} });

/** The attribute that owns a level, by the name of the level or by both: county, geo.county. */
function levelOwner(called, schema) {
  for (const attribute of schema) {
    for (const level of attribute.levels ?? []) {
      if (called === level.name || called === `${attribute.name}.${level.name}`) return { attribute: attribute.name, level: level.name };
    }
  }
  return null;
}

/** What can be asked of an attribute: [way, words] pairs. */
export function waysOf(seen) {
  if (!seen) return [["each", "each value"], ["groups", "groups…"]];
  const levels = (seen.levels ?? []).map(({ name, size }) => [`level:${name}`, `each ${name} (${size.toLocaleString("en")})`]);
  const ways = levels.length ? [["each", levels[0][1]], ...levels.slice(1)] : [["each", "each value"]];
  if (seen.ordered) ways.push(["prefix", "up to each value"], ["ranges", "every range"], ["widths", "groups of equal width…"]);
  ways.push(["groups", "groups I choose…"]);
  return ways;
}

export function draftOfEntry(entry, section, design, schema) {
  const { weight, ...rest } = entry;
  if (section === "predicates") return { ...emptyTable(), kind: "where", where: [entry.where].flat().join("\n"), name: entry.name ?? "", rest: { weight } };
  const draft = { ...emptyTable(), name: entry.name ?? "", rest: { weight } };
  if (entry.query === undefined) {
    const kind = entry.k !== undefined ? "k" : "up_to";
    const parts = Object.entries(entry.factors ?? {}).map(([name, ask]) => partOf(name, ask, schema));
    return { ...draft, kind, ways: entry[kind], parts };
  }
  if (entry.matrix) return { ...draft, kind: "matrix", rest };
  const asked = readQuestion(entry.query, attributeNames(design));
  return { ...draft, parts: asked.map(({ name, ask }) => partOf(name, entry.factors?.[name] ?? ask, schema)) };
}

function partOf(called, ask, schema) {
  const known = schema.some((attribute) => attribute.name === called);
  const owner = known ? null : levelOwner(called, schema);
  const part = emptyPart(owner?.attribute ?? called);
  if (owner && !ask) return wayOfLevel(part, owner.level, schema);
  if (owner) return { ...part, way: "kept", held: { called, ask } };
  if (!ask || ask === "identity") return part;
  if (typeof ask !== "string") return partOfObject(part, ask);
  if (WORDS.includes(ask)) return ask === "total" ? { ...part, way: "kept", held: { called, ask } } : { ...part, way: ask };
  const levels = schema.find((attribute) => attribute.name === called)?.levels ?? [];
  if (levels.some((level) => level.name === ask)) return wayOfLevel(part, ask, schema);
  const widths = /^levels\(([\d,\s]*)\)$/.exec(ask);
  if (widths) return { ...part, way: "widths", widths: widths[1] };
  return ask.startsWith("levels(") ? { ...part, way: "kept", held: { called, ask } } : { ...part, way: "groups", groups: ask.split("|").map((row) => row.trim()).join("\n") };
}

function wayOfLevel(part, level, schema) {
  const finest = schema.find((attribute) => attribute.name === part.name)?.levels?.[0]?.name;
  return level === finest ? part : { ...part, way: `level:${level}` };
}

/** Groups with names, as rows of their own or as a level that leaves out leaves and total. */
function partOfObject(part, ask) {
  const alone = ask.levels?.length === 1 && ask.leaves === false && ask.total === false;
  const rows = ask.custom ?? (alone ? ask.levels[0] : null);
  const plain = rows && !Array.isArray(rows) && typeof rows === "object" && Object.values(rows).every((row) => typeof row === "string") && !("file" in rows);
  if (!plain) return { ...part, way: "kept", held: { called: part.name, ask } };
  return { ...part, way: "groups", groups: Object.entries(rows).map(([name, span]) => `${name}: ${span}`).join("\n"), form: ask.custom ? "custom" : "levels" };
}

/** What is asked of one attribute: { called, ask }, where ask is text or an object. */
function askOf(part, schema) {
  if (part.way === "each") return { called: part.name, ask: "" };
  if (part.way === "kept") return part.held;
  if (part.way === "widths") return { called: part.name, ask: `levels(${part.widths.trim()})` };
  if (part.way.startsWith("level:")) return levelAsk(part, schema);
  if (part.way !== "groups") return { called: part.name, ask: part.way };
  const groups = readGroups(part.groups);
  if (groups.plain !== undefined) return { called: part.name, ask: groups.plain };
  const object = part.form === "levels" ? { levels: [groups.named], leaves: false, total: false } : { custom: groups.named, name: Object.keys(groups.named).join(", ") };
  return { called: part.name, ask: object };
}

function levelAsk(part, schema) {
  const level = part.way.slice("level:".length);
  const owners = schema.filter((attribute) => attribute.name === level || attribute.levels?.some((each) => each.name === level));
  return owners.length === 1 ? { called: level, ask: "" } : { called: `${part.name}.${level}`, ask: "" };
}

/** What is still missing in a draft, in words; empty where nothing is. */
export function missingIn(draft) {
  if (draft.kind === "where") return draft.where.trim() ? "" : "Write a condition, as in: age < 18 and sex = 'F'.";
  for (const part of draft.parts) {
    if (part.way === "groups" && !part.groups.trim()) return `Write the groups of ${part.name}, one on each line.`;
    if (part.way === "widths" && !/^\d+(\s*,\s*\d+)*$/.test(part.widths.trim())) return `Write how many values of ${part.name} a group has, as in 5 or 5, 10.`;
  }
  return "";
}

/** The entry that a draft means, with its section. */
export function entryOf(draft, schema) {
  const rest = Object.fromEntries(Object.entries(draft.rest).filter(([, value]) => value !== undefined));
  const name = draft.name.trim() ? { name: draft.name.trim() } : {};
  if (draft.kind === "where") {
    const lines = draft.where.split("\n").map((line) => line.trim()).filter(Boolean);
    return { section: "predicates", entry: lines.length === 1 ? { ...name, where: lines[0], ...rest } : { where: lines, ...rest } };
  }
  if (draft.kind === "matrix") return { section: "tables", entry: { ...rest, ...name } };
  const asks = draft.parts.map((part) => askOf(part, schema));
  if (draft.kind !== "table") {
    const factors = Object.fromEntries(asks.filter(({ ask }) => ask).map(({ called, ask }) => [called, ask]));
    return { section: "tables", entry: { [draft.kind]: draft.ways, ...(Object.keys(factors).length ? { factors } : {}), ...rest } };
  }
  return { section: "tables", entry: { ...name, ...setPartsText(asks), ...rest } };
}

/** How many tables a family has. */
export function familySize(kind, ways, attributes) {
  let [total, choose] = [0, 1];
  for (let k = 0; k <= ways; k += 1) {
    if (kind === "up_to" || k === ways) total += choose;
    choose = choose * (attributes - k) / (k + 1);
  }
  return Math.round(total);
}
