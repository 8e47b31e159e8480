// What this browser keeps, so that neither a reload nor a server that was stopped loses any work.
//
// Each tab has a draft of its own in localStorage, under an id that only this tab holds (a lock, so a
// duplicated tab takes a new one). Drafts of tabs that are gone, with work that was never saved, are
// offered to the next tab.

const PREFIX = "noiseplan-studio:";
const MONTH = 30 * 24 * 3600 * 1000;
let own = null;

function hold(id) {
  if (!navigator.locks) return Promise.resolve(true);
  return new Promise((resolve) => {
    navigator.locks.request(PREFIX + id, { ifAvailable: true }, (lock) => {
      resolve(Boolean(lock));
      return lock ? new Promise(() => {}) : undefined; // held as long as the tab is open
    });
  });
}

function read(id) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + id));
  } catch {
    return null;
  }
}

/** The id of this tab; what it kept, and what others left behind. */
export async function openDrafts() {
  let id = sessionStorage.getItem(`${PREFIX}tab`) ?? crypto.randomUUID();
  let kept = read(id);
  if (!(await hold(id))) {
    id = crypto.randomUUID();
    await hold(id);
  }
  own = id;
  sessionStorage.setItem(`${PREFIX}tab`, id);
  return { id, kept, left: await abandoned() };
}

async function abandoned() {
  const held = navigator.locks ? (await navigator.locks.query()).held.map((lock) => lock.name) : [];
  const found = [];
  for (const key of Object.keys(localStorage)) {
    if (!key.startsWith(PREFIX) || key === PREFIX + own || held.includes(key)) continue;
    const draft = read(key.slice(PREFIX.length));
    if (!draft || Date.now() - draft.when > MONTH) localStorage.removeItem(key);
    else found.push({ ...draft, id: key.slice(PREFIX.length) });
  }
  return found.sort((a, b) => b.when - a.when);
}

export function forget(id) {
  localStorage.removeItem(PREFIX + id);
}

/** Keep this; where the browser has little room left, with fewer steps to go back. */
export function keep(draft) {
  for (const steps of [draft.past.length, 10, 0]) {
    try {
      const fewer = { ...draft, past: draft.past.slice(draft.past.length - steps), future: draft.future.slice(0, steps), when: Date.now() };
      localStorage.setItem(PREFIX + own, JSON.stringify(fewer));
      return true;
    } catch {
      // too large: try with less
    }
  }
  return false;
}
