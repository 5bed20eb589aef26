/** Ten thousand tenants with pending work: the time of maintenance acts on each, and the wait of the last. */
import pg from 'pg';
import { maintain } from '../modules/platform/maintain.ts';
import type { MaintenanceAct } from '../jobs/maintenance.ts';
import { openDrover, type BenchDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';

const TENANTS = 10_000;
/** One in twenty tenants has policies. */
const RULED_EVERY = 20;
const RULES = 5;

/** Creates the tenants, repeats the acts until nothing is left, and reads all tenants' policies twice. */
export async function measureTenants(services: Services): Promise<Figure[]> {
  const drover = await openDrover('pure', services);
  const client = new pg.Client(services.databaseUrl);
  await client.connect();
  try {
    const tenants = await makeTenants(client);
    const acts: MaintenanceAct[] = ['seal-audit', 'settle-budgets'];
    const figures: Figure[] = [];
    for (const act of acts) figures.push(...(await rounds(drover, act)));
    const first = await readPolicies(drover, tenants);
    const again = await readPolicies(drover, tenants);
    const figure = { part: 'tenants', unit: 'us' };
    return [
      ...figures,
      { ...figure, what: `policies of ${TENANTS} tenants, each for the first time`, value: first },
      {
        ...figure,
        what: 'and once more',
        value: again,
        ratio: { value: again / first, to: 'the first time' },
      },
    ];
  } finally {
    await client.end();
    await drover.close();
  }
}

async function makeTenants(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ id: string }>(
    `insert into tenants (id, name) select gen_random_uuid(), 'tenant ' || n from generate_series(1, $1::int) n returning id`,
    [TENANTS],
  );
  const ids = rows.map(({ id }) => id);
  await client.query(
    `insert into audit_log (id, tenant_id, action, actor_type, target_type, details)
       select gen_random_uuid(), t, 'policy.created', 'system', 'policy', '{}' from unnest($1::uuid[]) t, generate_series(1, 2)`,
    [ids],
  );
  await client.query(
    `insert into reservations (run_id, step, fence, tenant_id, workspace_id, agent_id, root_run_id, state, tokens, cost_usd, created_at, settled_at)
       select gen_random_uuid(), n, 1, t, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'settled', 500, 0.01, now(), now()
       from unnest($1::uuid[]) t, generate_series(1, 5) n`,
    [ids],
  );
  const ruled = ids.filter((_, index) => index % RULED_EVERY === 0);
  const definition = {
    name: 'n',
    priority: 1,
    decision: 'block',
    reason: 'r',
    when: `tool.name == 'drop' && risk == 'high'`,
  };
  await client.query(
    `with p as (insert into policies (id, tenant_id, name, status, current_version)
         select gen_random_uuid(), t, 'rule ' || n, 'active', 1 from unnest($1::uuid[]) t, generate_series(1, $2::int) n returning id, tenant_id)
       insert into policy_versions (policy_id, version, tenant_id, definition, created_by) select id, 1, tenant_id, $3::jsonb, gen_random_uuid() from p`,
    [ruled, RULES, JSON.stringify(definition)],
  );
  await client.query('analyze');
  return ids;
}

/** Repeats an act until it finds nothing more. */
async function rounds(drover: BenchDrover, act: MaintenanceAct): Promise<Figure[]> {
  let longestMs = 0;
  let count = 0;
  const startedMs = performance.now();
  for (let left = true; left; count++) {
    const roundMs = performance.now();
    const done = await maintain(drover.context, act);
    left = Object.values(done).some((each) => each > 0);
    longestMs = Math.max(longestMs, performance.now() - roundMs);
  }
  const figure = { part: 'tenants', unit: 's' };
  return [
    {
      ...figure,
      what: `${act}, until all ${TENANTS} have had it (${count} rounds)`,
      value: (performance.now() - startedMs) / 1000,
    },
    { ...figure, what: `${act}, its longest round`, value: longestMs / 1000, goal: '<= 5' },
  ];
}

async function readPolicies({ context }: BenchDrover, tenants: readonly string[]): Promise<number> {
  const startedMs = performance.now();
  for (const id of tenants) await context.governance.at(id, 1);
  return ((performance.now() - startedMs) * 1000) / tenants.length;
}
