/** The API's process. What it consists of is imported once a signal can stop it. */
import { stopEarly } from '../lib/early-stop.ts';

stopEarly();
const { runApi } = await import('./run-api.ts');
await runApi();
