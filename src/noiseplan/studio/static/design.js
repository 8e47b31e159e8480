// What can be done to a design: the study file as JSON. Nothing here touches the page.

import { mentions, readQuestion, renameInCondition, writeQuestion } from "./questions.js";
import { valueText } from "./values.js";

export const KINDS = ["categorical", "ordinal", "binned", "hierarchical"];
export const CURRENCIES = ["zcdp", "approx_dp", "pure_dp", "gdp"];

export const attributeNames = (design) => Object.keys(design?.schema ?? {});
export const copy = (value) => structuredClone(value ?? {});

export function kindOf(declared) {
  return KINDS.find((kind) => kind in (declared ?? {})) ?? "categorical";
}

/** An object with its keys in another order. */
function ordered(object, names) {
  return Object.fromEntries(names.map((name) => [name, object[name]]));
}

export function setAttribute(design, name, declared, before) {
  const schema = design.schema ?? {};
  if (!before || before === name) {
    design.schema = { ...schema, [name]: declared };
    return;
  }
  renameAttribute(design, before, name);
  design.schema[name] = declared;
}

function renameAttribute(design, from, to) {
  design.schema = Object.fromEntries(Object.entries(design.schema).map(([name, declared]) => [name === from ? to : name, declared]));
  const names = attributeNames(design);
  for (const entry of design.tables ?? []) renameInTable(entry, from, to, names);
  for (const entry of design.predicates ?? []) {
    entry.where = Array.isArray(entry.where)
      ? entry.where.map((text) => renameInCondition(text, from, to))
      : renameInCondition(entry.where ?? "", from, to);
  }
}

function renameInTable(entry, from, to, names) {
  if (entry.factors && from in entry.factors) {
    entry.factors = Object.fromEntries(Object.entries(entry.factors).map(([name, ask]) => [name === from ? to : name, ask]));
  }
  if (entry.query === undefined) return;
  const parts = readQuestion(entry.query, [...names, from]);
  if (!parts.some((part) => renamed(part.name, from, to) !== part.name)) return;
  setParts(entry, parts.map((part) => ({ ...part, name: renamed(part.name, from, to) })));
}

/** The name itself, or that of a level, as in geo.county. */
function renamed(name, from, to) {
  if (name === from) return to;
  return name.startsWith(`${from}.`) ? `${to}${name.slice(from.length)}` : name;
}

/** Write parts into an entry: as text where that is possible, else as a list with factors. */
function setParts(entry, parts) {
  const text = Array.isArray(entry.query) && parts.every((part) => !part.ask) ? null : writeQuestion(parts);
  if (text !== null) {
    entry.query = text;
    return;
  }
  entry.query = parts.map((part) => part.name);
  for (const { name, ask } of parts) if (ask) entry.factors = { ...entry.factors, [name]: ask };
}

export function moveAttribute(design, name, by) {
  const names = attributeNames(design);
  const at = names.indexOf(name);
  const to = at + by;
  if (to < 0 || to >= names.length) return false;
  names.splice(at, 1);
  names.splice(to, 0, name);
  design.schema = ordered(design.schema, names);
  return true;
}

/** Which entries name an attribute: [{ section, index }]. */
export function usesOf(design, name, levels = []) {
  const called = new Set([name, ...levels, ...levels.map((level) => `${name}.${level}`)]);
  const names = attributeNames(design);
  const found = [];
  (design.tables ?? []).forEach((entry, index) => {
    const asked = entry.query !== undefined && readQuestion(entry.query, names).some((part) => called.has(part.name));
    if (asked || (entry.factors && name in entry.factors)) found.push({ section: "tables", index });
  });
  (design.predicates ?? []).forEach((entry, index) => {
    if ([entry.where].flat().some((text) => [...called].some((each) => mentions(text ?? "", each)))) found.push({ section: "predicates", index });
  });
  return found;
}

/** Take an attribute out: tables are summed over it, conditions on it go. */
export function removeAttribute(design, name, levels = []) {
  const called = new Set([name, ...levels, ...levels.map((level) => `${name}.${level}`)]);
  const names = attributeNames(design);
  const used = usesOf(design, name, levels);
  const gone = new Set();
  for (const { section, index } of used) {
    const entry = design[section][index];
    if (section === "predicates") {
      gone.add(entry);
      continue;
    }
    if (entry.factors) {
      delete entry.factors[name];
      if (!Object.keys(entry.factors).length) delete entry.factors;
    }
    if (entry.query === undefined) continue;
    const parts = readQuestion(entry.query, names).filter((part) => !called.has(part.name));
    if (!parts.length || entry.matrix) gone.add(entry);
    else setParts(entry, parts);
  }
  for (const section of ["tables", "predicates"]) {
    if (design[section]) setSection(design, section, design[section].filter((entry) => !gone.has(entry)));
  }
  delete design.schema[name];
  const left = Object.keys(design.schema).length;
  for (const entry of design.tables ?? []) {
    for (const way of ["k", "up_to"]) if (entry[way] > left) entry[way] = left;
  }
}

function setSection(design, section, entries) {
  if (entries.length) design[section] = entries;
  else delete design[section];
}

export function setEntry(design, section, index, entry) {
  const entries = [...(design[section] ?? [])];
  if (index === null) entries.push(entry);
  else entries[index] = entry;
  design[section] = entries;
}

export function removeEntry(design, section, index) {
  setSection(design, section, design[section].filter((_, at) => at !== index));
}

export function moveEntry(design, section, index, by) {
  const entries = [...design[section]];
  const to = index + by;
  if (to < 0 || to >= entries.length) return false;
  entries.splice(to, 0, ...entries.splice(index, 1));
  design[section] = entries;
  return true;
}

/** How the cost is said: a currency, "targets" or "reach"; null where nothing is said yet. */
export function costMode(design) {
  const currency = CURRENCIES.find((each) => each in (design?.budget ?? {}));
  if (currency) return currency;
  if (design?.plan?.at_most !== undefined) return "reach";
  return design?.targets !== undefined ? "targets" : null;
}

export function budgetAmount(design) {
  const mode = costMode(design);
  if (mode === "approx_dp") return design.budget.approx_dp.epsilon;
  return CURRENCIES.includes(mode) ? design.budget[mode] : null;
}

export const budgetDelta = (design) => design?.budget?.approx_dp?.delta ?? 1e-9;

export function budgetOf(currency, amount, delta) {
  return { [currency]: currency === "approx_dp" ? { epsilon: amount, delta } : amount };
}

export function setBudget(design, currency, amount, delta) {
  design.budget = budgetOf(currency, amount, delta);
}

/** A target as { half_width, level }, whichever way it was written. */
export function targetWidth(target, factor) {
  if (target === undefined || target === null) return null;
  if (typeof target === "number") return { width: Math.sqrt(target) * factor(0.95), level: 0.95 };
  if (target.half_width !== undefined) return { width: target.half_width, level: target.level ?? 0.95 };
  const error = target.std_error ?? Math.sqrt(target.variance);
  return { width: error * factor(0.95), level: 0.95 };
}

export function setTarget(design, names, target) {
  const all = typeof design.targets === "object" && design.targets !== null ? { ...design.targets } : {};
  for (const name of names) {
    if (target === null) delete all[name];
    else all[name] = target;
  }
  if (Object.keys(all).length) design.targets = all;
  else delete design.targets;
}

/** Keep targets with their tables when these are called otherwise. */
export function carryNames(design, before, after) {
  const calledNow = new Map();
  const all = new Set(after.flatMap((entry) => entry.names));
  const sameEntries = before.length === after.length;
  for (const old of before) {
    const now = sameEntries && after.find((entry) => entry.section === old.section && entry.index === old.index);
    old.names.forEach((name, at) => {
      if (!all.has(name)) calledNow.set(name, now && now.names.length === old.names.length ? now.names[at] : null);
    });
  }
  const rename = (name) => (calledNow.has(name) ? calledNow.get(name) : name);
  let changed = false;
  if (design.targets && typeof design.targets === "object") {
    const kept = Object.entries(design.targets).map(([name, target]) => [rename(name), target, name]);
    changed = kept.some(([now, , old]) => now !== old);
    const targets = Object.fromEntries(kept.filter(([name]) => name !== null));
    if (Object.keys(targets).length) design.targets = targets;
    else delete design.targets;
  }
  if (Array.isArray(design.output?.tables)) {
    const kept = design.output.tables.map(rename).filter((name) => name !== null);
    changed = changed || kept.join("\n") !== design.output.tables.join("\n");
    if (kept.length) design.output.tables = kept;
    else delete design.output.tables;
  }
  return changed;
}

/** Set a key of a section, or take it away where the value is the default; empty sections go. */
export function setKey(design, section, key, value) {
  const now = { ...(design[section] ?? {}) };
  if (value === undefined || value === null || value === "") delete now[key];
  else now[key] = value;
  if (Object.keys(now).length) design[section] = now;
  else delete design[section];
}

/** What a table asks of an attribute, in words. */
function askWords(name, ask, levelOf = null) {
  if (levelOf) return `each ${name}`;
  if (ask === undefined || ask === "" || ask === "identity") return `each ${name}`;
  if (ask === "prefix") return `up to each ${name}`;
  if (ask === "ranges") return `ranges of ${name}`;
  if (ask === "total") return `all ${name} together`;
  if (typeof ask === "string") return `${name}: ${ask}`;
  if (ask.custom && !Array.isArray(ask.custom)) return `${name}: ${Object.keys(ask.custom).join(", ")}`;
  if (ask.custom) return `${name}: ${ask.name ?? "rows of a matrix"}`;
  return `${name} by ${levelsWords(ask.levels ?? [])}${ask.leaves === false ? "" : ", and each value"}${ask.total === false ? "" : ", and all"}`;
}

function levelsWords(levels) {
  return levels.map((level) => {
    if (typeof level === "number") return `groups of ${level}`;
    if (Array.isArray(level)) return [...new Set(level.map(valueText))].join(", ");
    return level.file ? `${level.group} (of ${level.file})` : Object.keys(level).join(", ");
  }).join(" and ");
}

/** An entry of [[tables]] or [[predicates]] in words. */
export function entryWords(entry, section, design, levels = new Set()) {
  if (section === "predicates") return [entry.where].flat().join("; ");
  const names = attributeNames(design);
  const asks = Object.entries(entry.factors ?? {}).map(([name, ask]) => askWords(name, ask));
  if (entry.query === undefined) {
    const tables = entry.k !== undefined ? `every table of ${entry.k} attributes` : `every table of at most ${entry.up_to} attributes`;
    return asks.length ? `${tables}; ${asks.join(", ")}` : tables;
  }
  if (entry.matrix) return `rows of a matrix over ${[entry.query].flat().join(" × ")}`;
  const parts = readQuestion(entry.query, names).map(({ name, ask }) => askWords(name, entry.factors?.[name] ?? ask, levels.has(name) ? name : null));
  return parts.length ? parts.join(" × ") : "everybody, one number";
}

/** What a schema entry declares, in a few words. */
export function attributeWords(declared, seen) {
  const kind = kindOf(declared);
  const size = seen ? `${seen.size.toLocaleString("en")} ${kind === "binned" ? "bins" : "values"}` : "";
  const held = declared[kind];
  const what = { categorical: "categories", ordinal: "ordered", binned: "numbers in bins", hierarchical: "hierarchy" }[kind];
  const source = held?.file ? `from ${held.file}` : "";
  const levels = seen?.levels?.length ? seen.levels.map((level) => `${level.name} ${level.size.toLocaleString("en")}`).join(" › ") : "";
  const extras = [declared.missing && `missing: ${declared.missing}`, declared.other && `other: ${valueText(declared.other)}`, declared.clip && "ends hold what is beyond"];
  return [what, size, levels, source, ...extras].filter(Boolean).join(" · ");
}
