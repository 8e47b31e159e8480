// Numbers as the page writes them.

/** About four digits: 26.48, 1,204, 0.000132. */
export function shown(x, digits = 4) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return x.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  return x.toLocaleString("en", { maximumSignificantDigits: Math.max(digits, Math.ceil(Math.log10(size + 1))) });
}

/** Four digits, no fewer: for columns, in which numbers are compared. */
export function aligned(x) {
  if (x === null || x === undefined || !Number.isFinite(x) || x === 0 || Math.abs(x) < 1e-4 || Math.abs(x) >= 1000) return shown(x);
  return x.toLocaleString("en", { minimumSignificantDigits: 4, maximumSignificantDigits: 4 });
}

/** A share as a percentage: 12 %, 0.73 %. */
export function percent(x, digits = 3) {
  return x === null || x === undefined ? "–" : `${shown(100 * x, digits)} %`;
}

/** A whole number with its noun: 1 table, 20 tables. */
export function counted(n, one, many = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** "a, b and 3 more". */
export function listed(names, most = 3) {
  if (names.length <= most) return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
  return `${names.slice(0, most).join(", ")} and ${names.length - most} more`;
}

/** The factor that turns a standard error into half the interval at a level: 1.96 at 0.95; more for Laplace noise. */
export function widthFactor(level, laplace = false) {
  // Newton on the normal distribution function, from a start that is near for every level in use.
  let z = Math.sqrt(-2 * Math.log((1 - level) / 2)) * 0.8;
  for (let i = 0; i < 40; i += 1) {
    const step = (2 * normal(z) - 1 - level) / (2 * Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI));
    z -= Math.max(-1, Math.min(1, step));
    if (Math.abs(step) < 1e-14) break;
  }
  return laplace ? Math.max(z, -Math.log(1 - level) / Math.SQRT2) : z;
}

/** The standard normal distribution function: a series near zero, a continued fraction beyond. */
function normal(z) {
  const density = Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI);
  if (z < 0) return 1 - normal(-z);
  if (z < 3.5) {
    let term = z;
    let sum = z;
    for (let n = 1; Math.abs(term) > 1e-17 * sum; n += 1) {
      term *= z * z / (2 * n + 1);
      sum += term;
    }
    return 0.5 + density * sum;
  }
  let fraction = z;
  for (let n = 60; n > 0; n -= 1) fraction = z + n / fraction;
  return 1 - density / fraction;
}

/** Round up to two digits, so that what is asked for is not less than what is known to be met. */
export function roundUp(x, digits = 2) {
  const unit = 10 ** (Math.floor(Math.log10(x)) - digits + 1);
  return Number((Math.ceil(x / unit - 1e-9) * unit).toPrecision(12));
}

/** The time of day of a moment, for "saved at 14:03". */
export function clock(moment) {
  return new Date(moment).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}
