/**
 * `npx tsx test/support/make-templates.ts`: so that processes of tests that start together do not all begin with it.
 * Prints the folder in which the sources stand compiled, the tests with them.
 */
import { join } from 'node:path';
import type * as TestDatabases from './database.ts';
import { MODES } from './modes.ts';
import { compileSources } from './processes.ts';

const compiled = await compileSources();
// The compiled ones make what compiled tests begin with.
const { createTestServices } = (await import(join(compiled, 'test/support/database.js'))) as typeof TestDatabases;
for (const mode of MODES) {
  const services = await createTestServices(mode);
  await services.drop();
}
console.log(compiled);
