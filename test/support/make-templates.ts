/** `npx tsx test/support/make-templates.ts`: so that processes of tests that start together do not all begin with it. */
import { createTestServices } from './database.ts';
import { MODES } from './modes.ts';
import { programOf } from './processes.ts';

await programOf('api/main.ts');
for (const mode of MODES) {
  const services = await createTestServices(mode);
  await services.drop();
}
