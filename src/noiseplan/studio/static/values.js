// What people type or paste as values, read into what a study file holds, and back into text.

const WHOLE = /^-?(0|[1-9]\d*)$/;
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const MOMENT = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?$/;

/** Pasted or typed values: one on each line; on one line, between tabs, semicolons or commas. */
export function splitValues(text) {
  const lines = text.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
  if (lines.length !== 1) return lines.map((line) => line.split("\t")[0].trim()).filter(Boolean);
  const sign = ["\t", ";", ","].find((each) => lines[0].includes(each));
  return (sign ? lines[0].split(sign) : lines).map((value) => value.trim()).filter(Boolean);
}

/** Values that appear more than once. */
export function repeated(values) {
  return [...new Set(values.filter((value, at) => values.indexOf(value) !== at))];
}

/** Labels: whole numbers where all of them are, and are to be; else text. */
export function labelsOf(values, asText) {
  return !asText && values.length && values.every((value) => WHOLE.test(value)) ? values.map(Number) : values;
}

export const allWhole = (values) => values.length > 0 && values.every((value) => WHOLE.test(value));

/** One end or edge: a number, ∞, a day, or a local date and time; null where it is none. */
export function readEdge(text) {
  const word = text.trim();
  if (NUMBER.test(word)) return Number(word);
  if (/^[+-]?(inf|infinity|∞)$/i.test(word)) return { $float: word.startsWith("-") ? "-inf" : "inf" };
  if (DAY.test(word)) return { $date: word };
  if (MOMENT.test(word)) return { $datetime: word.replace(" ", "T") };
  return null;
}

/** Any value of a study file as text. */
export function valueText(value) {
  if (value && typeof value === "object") return value.$date ?? value.$datetime ?? value.$time ?? value.$float ?? JSON.stringify(value);
  return String(value);
}

/** Groups as typed, one on each line, "young: 0..17" or "0..17": rows with a name, or plain ones. */
export function readGroups(text) {
  const lines = text.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
  const named = lines.map((line) => /^(.+?):\s+(.+)$/.exec(line));
  if (lines.length && named.every(Boolean)) {
    return { named: Object.fromEntries(named.map(([, name, span]) => [name.trim(), span.trim()])) };
  }
  return { plain: lines.map((line, at) => (named[at] ? named[at][2] : line)).join(" | ") };
}
