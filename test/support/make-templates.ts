/**
 * `npx tsx test/support/make-templates.ts`: so that processes of tests that start together do not all begin with it.
 * Prints the folder in which the sources stand compiled, the tests with them.
 */
import { createTestServices } from './database.ts';
import { MODES } from './modes.ts';
import { compileSources } from './processes.ts';

for (const mode of MODES) {
  const services = await createTestServices(mode);
  await services.drop();
}
console.log(await compileSources());
