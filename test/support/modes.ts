/** The three ways to run Drover (ARCHITECTURE.md): on PGlite, on Postgres, on Postgres and Redis. */
export type Mode = 'embedded' | 'postgres' | 'full';

/** The Postgres of the tests, with the right to create databases and roles. */
export const TEST_DATABASE_URL = process.env['TEST_DATABASE_URL'] || undefined;
export const TEST_REDIS_URL = process.env['TEST_REDIS_URL'] || undefined;

/** The modes that integration tests run in: `for (const mode of MODES) describe(…)`. */
export const MODES: Mode[] = modesOf(TEST_DATABASE_URL, TEST_REDIS_URL);

/** The modes that these services allow. Embedded needs none; full needs both. */
export function modesOf(databaseUrl: string | undefined, redisUrl: string | undefined): Mode[] {
  if (!databaseUrl) return ['embedded'];
  return redisUrl ? ['embedded', 'postgres', 'full'] : ['embedded', 'postgres'];
}

/** One line that says which modes run, which are left out, and what they need. */
export function describeModes(modes: readonly Mode[]): string {
  if (modes.includes('full')) return 'Integration tests run in all modes: embedded, postgres, full.';
  const missing = modes.includes('postgres') ? 'TEST_REDIS_URL' : 'TEST_DATABASE_URL and TEST_REDIS_URL';
  const out = modes.includes('postgres') ? 'full mode' : 'postgres and full mode';
  return `Integration tests run in ${modes.join(' and ')} mode only. Left out: ${out}, for want of ${missing} (CONTRIBUTING.md, Tests).`;
}
