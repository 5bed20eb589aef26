import { createContext, Script } from 'node:vm';

const context = createContext({ run: undefined });
const MAX_RUNS = 3;
const script = new Script('run()');

/**
 * Runs synchronous `work` and stops it after `timeoutMs`, even inside a regular expression that backtracks without end.
 * Throws what `work` throws, or an error for which `isTimeLimit` holds. Costs about 60 µs. The context is no sandbox:
 * `work` must be our own code over foreign data.
 */
export function runBounded<T>(work: () => T, timeoutMs: number): T {
  context['run'] = work;
  return script.runInContext(context, { timeout: Math.max(1, Math.ceil(timeoutMs)) }) as T;
}

/**
 * Like `runBounded`, for pure `work` that mostly takes far less than its time: runs it again, twice at most, where the
 * process did not have the CPU for half of that time, since then a busy machine stopped it, or nearly so.
 */
export function runOnCpu<T>(work: () => T, timeoutMs: number): T {
  for (let run = 1; ; run += 1) {
    const before = process.cpuUsage();
    try {
      return runBounded(work, timeoutMs);
    } catch (error) {
      if (!isTimeLimit(error) || hadItsTime(before, timeoutMs) || run === MAX_RUNS) throw error;
    }
  }
}

/** The same for work that bounds itself, and whose answer tells whether its time was over. */
export async function repeatOnCpu<T>(
  work: () => Promise<T>,
  { timeoutMs, isLate }: { timeoutMs: number; isLate: (answer: T) => boolean },
): Promise<T> {
  for (let run = 1; ; run += 1) {
    const before = process.cpuUsage();
    const answer = await work();
    if (!isLate(answer) || hadItsTime(before, timeoutMs) || run === MAX_RUNS) return answer;
  }
}

function hadItsTime(before: NodeJS.CpuUsage, timeoutMs: number): boolean {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 > timeoutMs / 2;
}

/** Whether an error is `runBounded`'s own time limit. */
export function isTimeLimit(error: unknown): boolean {
  // Not `instanceof`: the error may come from the context's realm.
  const { code } = (error ?? {}) as { code?: unknown };
  return code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
}
