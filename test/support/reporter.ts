import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { SourceMap, type SourceMapPayload } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Mocha from 'mocha';
import { tailsOfProcesses } from './processes.ts';

/**
 * Mocha's spec reporter that also writes `{passed, failed}` to the file named by `--reporter-option output=…`, and what
 * failed, as text, to that name with `.failures` behind it at once, with what the newest processes of the tests have written. The first appears at the end of the run, so that
 * its absence means that the run did not end. Stacks name the lines of sources: Node would do that for each error of
 * each test, also for those that nobody sees, which costs a tenth of the run.
 */
export default class CountingReporter extends Mocha.reporters.Spec {
  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    const output: unknown = options.reporterOptions?.output;
    if (typeof output !== 'string') throw new Error('the reporter needs --reporter-option output=FILE');
    runner.on('fail', (test, error: Error) => {
      const stack = inSources(error.stack ?? error.message);
      error.stack = stack;
      const processes = tailsOfProcesses();
      const told = [test.fullTitle(), `  ${test.file ?? ''}`, stack, ...(processes === '' ? [] : [processes])];
      appendFileSync(`${output}.failures`, `${told.join('\n')}\n\n`);
    });
    runner.once('end', () => {
      const { passes = 0, failures = 0 } = runner.stats ?? {};
      writeFileSync(output, JSON.stringify({ passed: passes, failed: failures }));
    });
  }
}

/** A stack with the places of compiled files that have a map beside them replaced by those of their sources. */
export const inSources = (stack: string): string => stack.replaceAll(/file:\/\/[^\s()]+\.js:\d+:\d+/g, placeInSource);

function placeInSource(place: string): string {
  const [, url = '', line, column] = /^(.*):(\d+):(\d+)$/.exec(place) ?? [];
  const file = fileURLToPath(url);
  if (!existsSync(`${file}.map`)) return place;
  const map = new SourceMap(JSON.parse(readFileSync(`${file}.map`, 'utf8')) as SourceMapPayload);
  const found = map.findEntry(Number(line) - 1, Number(column) - 1);
  if (!('originalSource' in found)) return place;
  return `${join(dirname(file), found.originalSource)}:${found.originalLine + 1}:${found.originalColumn + 1}`;
}
