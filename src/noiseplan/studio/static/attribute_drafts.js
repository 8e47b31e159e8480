// An attribute while it is being written: the fields of its dialog, from and to a line of [schema].

import { kindOf } from "./design.js";
import { counted, listed } from "./numbers.js";
import { allWhole, labelsOf, readEdge, repeated, splitValues, valueText } from "./values.js";

export const SOURCES = {
  categorical: [["list", "a list"], ["file", "a code list beside the study"]],
  ordinal: [["span", "from … to …"], ["list", "a list, in order"], ["file", "a code list beside the study"]],
  binned: [["list", "edges"], ["span", "from … to … in steps"], ["file", "a code list beside the study"]],
  hierarchical: [["levels", "columns of a code list"], ["codes", "first signs of codes"], ["prefixes", "first signs of codes in a code list"]],
};
const FILE_KEYS = ["file", "column"];

export function emptyDraft(name = "") {
  return {
    name, kind: "categorical", source: "list", list: "", from: "", to: "", step: "", file: "", column: "",
    type: "text", levels: "", codes: "", prefixes: "", leaf: "", ignore: "", missing: "", other: "", clip: false, asText: false, held: {},
  };
}

export function draftOf(name, declared) {
  const kind = kindOf(declared);
  const held = declared[kind];
  const draft = { ...emptyDraft(name), kind, missing: declared.missing ?? "", clip: Boolean(declared.clip) };
  draft.other = declared.other === undefined ? "" : valueText(declared.other);
  if (Array.isArray(held)) return { ...draft, source: "list", list: held.map(valueText).join("\n"), asText: held.every((value) => typeof value === "string") && allWhole(held) };
  const object = held ?? {};
  for (const key of ["from", "to", "step", "leaf", "ignore", ...FILE_KEYS]) if (object[key] !== undefined) draft[key] = valueText(object[key]);
  draft.type = object.type ?? "text";
  draft.held = object;
  draft.source = sourceOf(kind, object);
  if (object.levels) draft.levels = levelLines(object.levels);
  if (object.prefixes) draft.prefixes = Object.entries(object.prefixes).map(([level, length]) => `${level}: ${length}`).join("\n");
  if (object.codes) draft.codes = object.codes.join("\n");
  return draft;
}

function sourceOf(kind, object) {
  if (kind !== "hierarchical") return object.file !== undefined ? "file" : "span";
  if (object.levels) return "levels";
  return object.codes ? "codes" : "prefixes";
}

function levelLines(levels) {
  return Array.isArray(levels) ? levels.join("\n") : Object.entries(levels).map(([level, column]) => `${level}: ${column}`).join("\n");
}

/** The line of [schema] that a draft means, or the words for what is missing. */
export function declaredOf(draft) {
  if (!draft.name.trim()) return { wrong: "Give the attribute a name: that of its column." };
  const held = heldOf(draft);
  if (held.wrong) return held;
  const declared = { [draft.kind]: held.value };
  if (draft.other.trim() && ["categorical", "hierarchical"].includes(draft.kind)) declared.other = draft.other.trim();
  if (draft.clip && ["ordinal", "binned"].includes(draft.kind)) declared.clip = true;
  if (draft.missing.trim() && draft.kind !== "hierarchical") declared.missing = draft.missing.trim();
  return { name: draft.name.trim(), declared };
}

function heldOf(draft) {
  if (draft.kind === "hierarchical") return hierarchyOf(draft);
  if (draft.source === "file") return fileOf(draft);
  if (draft.source === "span") return spanOf(draft);
  const values = splitValues(draft.list);
  if (!values.length) return { wrong: draft.kind === "binned" ? "Write the edges of the bins, as in 0, 10, 50." : "Write the values, one on each line." };
  const twice = repeated(values);
  if (twice.length) return { wrong: `Written twice: ${listed(twice)}.` };
  if (draft.kind !== "binned") return { value: labelsOf(values, draft.asText) };
  const edges = values.map(readEdge);
  const odd = values.filter((_, at) => edges[at] === null);
  return odd.length ? { wrong: `No number or date: ${listed(odd)}.` } : { value: edges };
}

function fileOf(draft) {
  if (!draft.file.trim() || !draft.column.trim()) return { wrong: "Name the file, beside the study, and its column." };
  const value = { ...draft.held, file: draft.file.trim(), column: draft.column.trim() };
  if (draft.type === "text") delete value.type;
  else value.type = draft.type;
  return { value };
}

function spanOf(draft) {
  const needed = draft.kind === "binned" ? ["from", "to", "step"] : ["from", "to"];
  const ends = Object.fromEntries(needed.map((key) => [key, readEdge(draft[key])]));
  const odd = needed.find((key) => ends[key] === null);
  return odd ? { wrong: `Fill in “${odd}” with a number${draft.kind === "ordinal" ? " or a day, as in 2030-01-31" : ""}.` } : { value: ends };
}

function hierarchyOf(draft) {
  if (draft.source === "levels") {
    const levels = levelsOf(draft.levels);
    if (!draft.file.trim() || !levels) return { wrong: "Name the file and its columns, the finest first." };
    return { value: { ...pick(draft.held, ["separator", "paths"]), file: draft.file.trim(), levels } };
  }
  const prefixes = lengthsOf(draft.prefixes);
  if (!prefixes) return { wrong: "Say how many signs each level has, one on each line: state: 2." };
  const value = { ...pick(draft.held, ["separator"]), prefixes };
  if (draft.leaf.trim()) value.leaf = draft.leaf.trim();
  if (draft.ignore.trim()) value.ignore = draft.ignore.trim();
  if (draft.source === "codes") {
    const codes = splitValues(draft.codes);
    return codes.length ? { value: { codes, ...value } } : { wrong: "Paste the codes, one on each line." };
  }
  if (!draft.file.trim() || !draft.column.trim()) return { wrong: "Name the file, beside the study, and the column of codes." };
  return { value: { file: draft.file.trim(), column: draft.column.trim(), ...value } };
}

const pick = (object, keys) => Object.fromEntries(keys.filter((key) => key in object).map((key) => [key, object[key]]));

function levelsOf(text) {
  const lines = splitValues(text);
  if (!lines.length) return null;
  const pairs = lines.map((line) => /^(.+?):\s+(.+)$/.exec(line));
  return pairs.every(Boolean) ? Object.fromEntries(pairs.map(([, level, column]) => [level, column])) : lines;
}

function lengthsOf(text) {
  const pairs = splitValues(text).map((line) => /^(.+?)\s*[:=]\s*(\d+)$/.exec(line));
  return pairs.length && pairs.every(Boolean) ? Object.fromEntries(pairs.map(([, level, length]) => [level, Number(length)])) : null;
}

/** What the draft will hold, for the eye: "3 values: A, B, C". */
export function preview(draft) {
  const read = declaredOf({ ...draft, name: draft.name || "x" });
  if (read.wrong) return read.wrong;
  const held = read.declared[draft.kind];
  if (Array.isArray(held)) {
    const n = draft.kind === "binned" ? held.length - 1 : held.length;
    const as = draft.kind !== "binned" && held.every((value) => typeof value === "number") ? ", as numbers" : "";
    return `${counted(Math.max(n, 0), draft.kind === "binned" ? "bin" : "value")}${as}: ${listed(held.map(valueText), 6)}`;
  }
  if (draft.source === "span" && typeof held.from === "number") {
    const n = draft.kind === "binned" ? Math.round((held.to - held.from) / held.step) : held.to - held.from + 1;
    return n > 0 ? counted(n, draft.kind === "binned" ? "bin" : "value") : "The last must be above the first.";
  }
  return "The study reads them when it is planned.";
}
