// Questions in one line of text, as the study file writes them: age=prefix, sex.
// What is asked of an attribute is its "ask": the text behind the equals sign, or "" for each value.

const ODD = /[,=|+×'"()[\]\s]|\.\./;

/** Pieces between separators that stand outside quotes and brackets. */
export function split(text, separators) {
  const pieces = [];
  let [start, depth, quote] = [0, 0, ""];
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at];
    if (quote) quote = letter === quote ? "" : quote;
    else if (letter === '"' || letter === "'") quote = letter;
    else if ("([".includes(letter)) depth += 1;
    else if (")]".includes(letter)) depth -= 1;
    else if (separators.includes(letter) && depth <= 0) {
      pieces.push(text.slice(start, at));
      start = at + 1;
    }
  }
  return [...pieces, text.slice(start)];
}

function unquoted(text) {
  const quote = text[0];
  return text.length >= 2 && (quote === '"' || quote === "'") && text.at(-1) === quote ? text.slice(1, -1) : text;
}

/** A name or value in quotes where it needs them; null where no quotes would do. */
function quoted(name) {
  if (name !== "" && !ODD.test(name)) return name;
  if (!name.includes('"')) return `"${name}"`;
  return name.includes("'") ? null : `'${name}'`;
}

/** The parts of a question: [{ name, ask }], in order. "total" asks for nothing by name. */
export function readQuestion(question, attributes) {
  if (Array.isArray(question)) return question.map((name) => ({ name, ask: "" }));
  const parts = [];
  for (const part of split(question, ",×")) {
    const [name, ...rest] = split(part, "=");
    const read = unquoted(name.trim());
    if (!rest.length && read === "total" && !attributes.includes(read)) continue;
    parts.push({ name: read, ask: rest.join("=").trim() });
  }
  return parts;
}

/** Parts as a question in one line; null where a name fits in no quotes. */
export function writeQuestion(parts) {
  if (!parts.length) return "total";
  const written = parts.map(({ name, ask }) => {
    const safe = name === "total" && !ask ? '"total"' : quoted(name);
    return safe === null ? null : `${safe}${ask ? `=${ask}` : ""}`;
  });
  return written.includes(null) ? null : written.join(", ");
}

/** A condition with one attribute called otherwise: words outside of text, and quoted names. */
export function renameInCondition(condition, from, to) {
  const tokens = /'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|[\p{L}_][\p{L}\p{N}_]*|[^]/gu;
  const plain = /^[\p{L}_][\p{L}\p{N}_]*$/u.test(to) ? to : `\`${to}\``;
  return condition.replace(tokens, (token) => {
    const named = token === from || token === `"${from}"` || token === `\`${from}\``;
    return named ? plain : token;
  });
}

/** Whether a condition names an attribute. */
export function mentions(condition, name) {
  return renameInCondition(condition, name, `${name}_`) !== condition;
}

/** Asks as the keys of an entry: text asks in the question, objects as factors beside it. */
export function setPartsText(asks) {
  const text = writeQuestion(asks.map(({ called, ask }) => ({ name: called, ask: typeof ask === "string" ? ask : "" })));
  const objects = asks.filter(({ ask }) => ask && (text === null || typeof ask !== "string"));
  const factors = Object.fromEntries(objects.map(({ called, ask }) => [called, ask]));
  return { query: text ?? asks.map(({ called }) => called), ...(objects.length ? { factors } : {}) };
}
