/** Tells whoever follows a run that nothing takes turns: to the run itself this looks like a turn that has not begun. */
import type { Client } from './client.ts';

const ASK_MS = 10_000;
/** A worker takes a turn within this, unless it has much else to do. */
const LONG_MS = 10_000;

interface Queue {
  queue: string;
  active: number;
  oldest_waiting_at: string | null;
}

/** Asks at once and then now and again, and says it once, on stderr. Returns what ends the asking. */
export function sayIfUnserved(client: Client): () => void {
  const timer = setInterval(() => void ask(), ASK_MS);
  let isOver = false;
  const stop = () => {
    isOver = true;
    clearInterval(timer);
  };
  const ask = async () => {
    // Whatever fails here: the run is followed all the same.
    const queues = await client.get<{ queues: Queue[] }>('/v1/dashboard/queues').catch(() => ({ queues: [] }));
    const said = unservedLine(queues.queues, Date.now());
    if (isOver || said === undefined) return;
    stop();
    process.stderr.write(`drover: ${said}\n`);
  };
  void ask();
  return stop;
}

/** Undefined if a turn is under way, or none has waited for long. */
export function unservedLine(queues: readonly Queue[], nowMs: number): string | undefined {
  const turns = queues.find(({ queue }) => queue === 'turns');
  if (!turns || turns.active > 0 || turns.oldest_waiting_at === null) return undefined;
  const waitedMs = nowMs - Date.parse(turns.oldest_waiting_at);
  if (waitedMs < LONG_MS) return undefined;
  const seconds = Math.round(waitedMs / 1000);
  return `Turns wait for a worker, for up to ${seconds} s, and none is under way. Is a worker running? \`drover start worker\` starts one.`;
}
