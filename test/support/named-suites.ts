/** Suites that were asked for by name: they must have run, and not have been left out because a service is missing. */
import { resolve } from 'node:path';

/** A suite of mocha's, as far as it is looked at here. */
export interface RanSuite {
  tests: readonly { file?: string | undefined; state?: string | undefined }[];
  suites: readonly RanSuite[];
}

/**
 * Files named on mocha's command line (`args`, without patterns) of which no test has run; all of them if none has and
 * tests were picked by their titles.
 */
export function unrunFiles(args: readonly string[], root: RanSuite): string[] {
  const named = args.filter((arg) => arg.endsWith('.test.ts') && !arg.includes('*'));
  const ran = ranFiles(root);
  const isPicked = args.some((arg) => /^(-g|-f|--f?grep)(=|$)/.test(arg));
  if (isPicked) return ran.length === 0 ? named : [];
  return named.filter((file) => !ran.includes(resolve(file)));
}

const HAS_RUN: readonly unknown[] = ['passed', 'failed'];

function ranFiles({ tests, suites }: RanSuite): string[] {
  const own = tests.flatMap(({ file, state }) => (file !== undefined && HAS_RUN.includes(state) ? [file] : []));
  return [...own, ...suites.flatMap(ranFiles)];
}
