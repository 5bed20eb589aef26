/** Lets Node's own functions on files fail, for the files of PGlite and for those of Drover. */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

type Call = (...given: unknown[]) => unknown;

const OPENING = ['openSync', 'open'];
const SYNCING = ['fdatasyncSync', 'fdatasync'];

/** No file can be opened, as where the process has as many open as it may. */
export const withNoFilesToOpen = <Result>(work: () => Promise<Result>): Promise<Result> =>
  withFailing(OPENING, 'EMFILE', work);

/** What is written cannot be synced, as on a disk that fails. */
export const withNothingSynced = <Result>(work: () => Promise<Result>): Promise<Result> =>
  withFailing(SYNCING, 'EIO', work);

async function withFailing<Result>(
  names: readonly string[],
  code: string,
  work: () => Promise<Result>,
): Promise<Result> {
  const functions = fs as unknown as Record<string, Call>;
  const real = names.map((name) => [name, functions[name]] as const);
  const error = Object.assign(new Error(`${code}: made by a test`), { code });
  for (const name of names) {
    functions[name] = (...given) => {
      const told = given.at(-1);
      if (typeof told !== 'function') throw error;
      (told as Call)(error);
    };
  }
  syncBuiltinESMExports();
  try {
    return await work();
  } finally {
    for (const [name, call] of real) if (call) functions[name] = call;
    syncBuiltinESMExports();
  }
}
