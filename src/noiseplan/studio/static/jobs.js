// Work that the server does in the background: plans, and what each table costs the others.

import { get, post, remove, Refused } from "./api.js";

const PAUSES = [60, 90, 120, 150, 200];

/** Run one job to its end. `onStep` is told the state each time; `signal` cancels it at once. */
export async function run(request, { onStep = () => {}, signal } = {}) {
  for (;;) {
    const { job } = await post("/api/jobs", request, { signal });
    const ended = await follow(job, onStep, signal);
    if (ended) return ended;
    // The server was started again and knows nothing of the job: ask once more.
  }
}

async function follow(job, onStep, signal) {
  const cancel = () => { remove(`/api/jobs/${job}`).catch(() => {}); };
  signal?.addEventListener("abort", cancel, { once: true });
  try {
    for (let turn = 0; ; turn += 1) {
      const now = await get(`/api/jobs/${job}`, { signal });
      onStep(now);
      if (["done", "failed", "cancelled"].includes(now.state)) return now;
      await new Promise((resolve) => setTimeout(resolve, PAUSES[Math.min(turn, PAUSES.length - 1)]));
      signal?.throwIfAborted();
    }
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return null;
    throw error;
  } finally {
    signal?.removeEventListener("abort", cancel);
  }
}
