/** `npx tsx test/support/make-templates.ts`: so that processes of tests that start together do not all begin with it. */
import { MODES } from './modes.ts';
import { createTestPlace } from './database.ts';

for (const mode of MODES) await (await createTestPlace(mode)).drop();
