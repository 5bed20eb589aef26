import { setFlagsFromString } from 'node:v8';
import { deriveKeysOnce } from './derive-once.ts';
import { DOMAIN_MODE, MODES, describeModes } from './modes.ts';
import { unrunFiles, type RanSuite } from './named-suites.ts';
import { TEST_FLAGS } from './v8-flags.ts';

const END_MS = 30_000;

setFlagsFromString(TEST_FLAGS);
deriveKeysOnce();

/** What Node takes for leaks: operators would see these warnings with each request. */
const leaks: Error[] = [];
process.on('warning', (warning) => {
  if (warning.name === 'MaxListenersExceededWarning') leaks.push(warning);
});

/** Mocha calls it once, before everything else (.mocharc.json, `require`). */
export function mochaGlobalSetup(): void {
  console.log(describeModes({ contract: MODES, domain: DOMAIN_MODE }));
}

/** Mocha calls it once, after all tests. A file without a single test does not come here: `fail-zero` fails it. */
export const mochaHooks = {
  afterAll(this: { test: { parent: RanSuite } }): void {
    if (leaks.length > 0) throw new Error(`Node has warned of ${leaks.length} leaks`, { cause: leaks[0] });
    const files = unrunFiles(process.argv.slice(2), this.test.parent);
    if (files.length === 0) return;
    throw new Error(`None of the tests that were asked for has run: ${files.join(', ')}. Services may be missing.`);
  },
};

/** Mocha calls it once, after everything else. What a test has left open then keeps the process from ending. */
export function mochaGlobalTeardown(): void {
  const watch = setTimeout(() => {
    console.error(`Something was left open ${END_MS / 1000} s ago: ${process.getActiveResourcesInfo().join(', ')}`);
    // Mocha sets the code to the number of failures when the process ends; whoever listens last has the last word.
    process.once('exit', () => {
      process.exitCode = 1;
    });
    process.exit();
  }, END_MS);
  watch.unref();
}
