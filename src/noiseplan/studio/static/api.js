// Calls to the studio's server. Each carries all it needs, so a call that met no server is made again
// once one answers, and nothing is lost by that.

// Where this tab keeps the key of its calls. No cookie: that would go to every port of this machine.
const KEY = "noiseplan-studio:key";
const WAITS = [500, 1000, 2000, 4000];

/** What the server refused, in its own words. */
export class Refused extends Error {
  constructor(status, found, data) {
    super(found?.message ?? `the studio answered ${status}`);
    this.status = status;
    this.line = found?.line ?? null;
    this.hint = found?.hint ?? null;
    this.data = data ?? {};
  }
}

/** Nobody answered, and the call is not one to be made twice. */
class Unanswered extends Error {}

const listeners = new Set();
let standing = "there";
let returning = null;

/** Be told when the server is lost ("lost"), does not know this page ("stranger") or is "there". */
export function onConnection(listener) {
  listeners.add(listener);
}

function setStanding(now) {
  if (now === standing) return;
  standing = now;
  for (const listener of listeners) listener(now);
}

async function once(path, method, body, signal) {
  const headers = { "X-Noiseplan-Studio": sessionStorage.getItem(KEY) ?? "", "Content-Type": "application/json" };
  const answer = await fetch(path, {
    method, signal, headers, credentials: "omit", cache: "no-store",
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const data = await answer.json().catch(() => null);
  if (!answer.ok || data === null) throw new Refused(answer.ok ? 502 : answer.status, data?.error, data);
  return data;
}

/** Change the token in the address, which is good once, for the key of this tab. */
export async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  history.replaceState(null, "", location.pathname);
  try {
    sessionStorage.setItem(KEY, (await once("/api/enter", "POST", { token })).key);
  } catch {
    // used up, or nobody there: the next call says so
  }
  tryNow();
}

/** Whether a failure is one of the connection: nobody there, or a server that does not know us. */
function standingOf(error) {
  if (error instanceof Refused) return error.status === 401 || error.status === 403 ? "stranger" : null;
  return error instanceof TypeError ? "lost" : null;
}

/** Ask again and again, ever more slowly, until the server answers. */
function comeBack() {
  returning ??= (async () => {
    for (let turn = 0; ; turn += 1) {
      await pause(WAITS[Math.min(turn, WAITS.length - 1)]);
      try {
        await once("/api/start", "GET");
        break;
      } catch (error) {
        setStanding(standingOf(error) ?? "lost");
      }
    }
    returning = null;
    setStanding("there");
  })();
  return returning;
}

let wake = () => {};
function pause(wait) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, wait);
    wake = () => { clearTimeout(timer); resolve(); };
  });
}

/** Do not wait for the next turn. */
export function tryNow() {
  wake();
}

async function call(path, method, body, { signal, twice = true } = {}) {
  for (;;) {
    try {
      return await once(path, method, body, signal);
    } catch (error) {
      const now = standingOf(error);
      if (!now) throw error;
      setStanding(now);
      const back = comeBack();
      if (!twice) throw new Unanswered("The studio does not answer; nothing was done. Try again once it does.");
      await back;
    }
  }
}

let beside = () => ({});

/** What goes with every call that carries a text. */
export function carry(what) {
  beside = what;
}

const whole = (body) => (body && "text" in body ? { ...beside(), ...body } : body);

export const get = (path, how) => call(path, "GET", undefined, how);
export const post = (path, body, how) => call(path, "POST", whole(body), how);
export const remove = (path, how) => call(path, "DELETE", undefined, how);
