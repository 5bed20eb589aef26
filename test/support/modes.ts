/** The three ways to run Drover (README.md): on PGlite, on Postgres, on Postgres and Redis. */
export type Mode = 'embedded' | 'postgres' | 'full';

const ALL: readonly Mode[] = ['embedded', 'postgres', 'full'];

/** The Postgres of the tests, with the right to create databases and roles. */
export const TEST_DATABASE_URL = process.env['TEST_DATABASE_URL'] || undefined;
export const TEST_REDIS_URL = process.env['TEST_REDIS_URL'] || undefined;

const CHOSEN = chooseModes(process.env['TEST_MODES'] || undefined, {
  databaseUrl: TEST_DATABASE_URL,
  redisUrl: TEST_REDIS_URL,
});

/** The modes of contract suites, which hold what every mode promises: `for (const mode of MODES) describe(…)`. */
export const MODES = CHOSEN.contract;

/** The mode of domain suites, which test what is the same in every mode: one at a time. `npm run nightly` runs all. */
export const DOMAIN_MODE = CHOSEN.domain;
export const DOMAIN_MODES: readonly Mode[] = [DOMAIN_MODE];

/** The mode of floods, outages and deaths: the fullest that is allowed. Each night they run in every mode, one after another. */
export const FAULT_MODES: readonly Mode[] = CHOSEN.contract.slice(-1);

/**
 * The modes in which processes die: without Redis only the queue is another, which has contract suites of its own. Each
 * night they die in that mode, too.
 */
export const DEATH_MODES: readonly Mode[] = MODES.filter((mode) => mode !== 'postgres' || MODES.length === 1);

/** What has to be tested is not left out where a server is missing: it fails. */
export const MUST_BE_COMPLETE = CHOSEN.mustBeComplete;

interface ChosenModes {
  contract: Mode[];
  domain: Mode;
  mustBeComplete: boolean;
}

/**
 * Without `wanted`: contract suites in each mode that the services allow, domain suites in the fullest of them. `ci`: the
 * same, and every service must be there. The name of a mode: all suites in that one.
 * @throws where a mode is wanted that the services do not allow.
 */
export function chooseModes(
  wanted: string | undefined,
  services: { databaseUrl: string | undefined; redisUrl: string | undefined },
): ChosenModes {
  const allowed = modesOf(services.databaseUrl, services.redisUrl);
  // It takes the least CPU, too: Postgres without Redis asks for jobs again and again, and PGlite takes long to open.
  const fullest = allowed.at(-1) ?? 'embedded';
  if (wanted === undefined) return { contract: allowed, domain: fullest, mustBeComplete: false };
  const named = wanted === 'ci' ? [...ALL] : [readMode(wanted)];
  const missing = named.filter((mode) => !allowed.includes(mode));
  if (missing.length > 0) throw new Error(`TEST_MODES=${wanted} needs ${needs(missing)}.`);
  return { contract: named, domain: wanted === 'ci' ? fullest : readMode(wanted), mustBeComplete: true };
}

/** The modes that these services allow. Embedded needs none; full needs both. */
function modesOf(databaseUrl: string | undefined, redisUrl: string | undefined): Mode[] {
  return ALL.filter(
    (mode) => mode === 'embedded' || (databaseUrl !== undefined && (mode === 'postgres' || redisUrl !== undefined)),
  );
}

/** One line that says which modes run, which are left out, and what they need. */
export function describeModes({ contract, domain }: Pick<ChosenModes, 'contract' | 'domain'>): string {
  const missing = ALL.filter((mode) => !contract.includes(mode));
  const left = missing.length === 0 ? '' : ` Left out: ${missing.join(' and ')} (CONTRIBUTING.md, Tests).`;
  return `Contract suites run in these modes: ${contract.join(', ')}; domain suites in ${domain} mode.${left}`;
}

function needs(missing: readonly Mode[]): string {
  return missing.includes('postgres') ? 'TEST_DATABASE_URL' : 'TEST_REDIS_URL beside TEST_DATABASE_URL';
}

function readMode(name: string): Mode {
  const mode = ALL.find((each) => each === name);
  if (!mode) throw new Error(`TEST_MODES is "${name}": expected ci or the name of a mode, ${ALL.join(', ')}.`);
  return mode;
}
