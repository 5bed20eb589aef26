import { appendFileSync, writeFileSync } from 'node:fs';
import Mocha from 'mocha';

/**
 * Mocha's spec reporter that also writes `{passed, failed}` to the file named by `--reporter-option output=…`, and what
 * failed, as text, to that name with `.failures` behind it at once. The first appears at the end of the run, so that
 * its absence means that the run did not end.
 */
export default class CountingReporter extends Mocha.reporters.Spec {
  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    const output: unknown = options.reporterOptions?.output;
    if (typeof output !== 'string') throw new Error('the reporter needs --reporter-option output=FILE');
    runner.on('fail', (test, error: Error) => {
      appendFileSync(
        `${output}.failures`,
        `${test.fullTitle()}\n  ${test.file ?? ''}\n${error.stack ?? error.message}\n\n`,
      );
    });
    runner.once('end', () => {
      const { passes = 0, failures = 0 } = runner.stats ?? {};
      writeFileSync(output, JSON.stringify({ passed: passes, failed: failures }));
    });
  }
}
