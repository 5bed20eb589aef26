import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { newId } from '../../lib/new-id.ts';
import type { Database, Tx } from '../../db/database.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';

interface Column {
  name: string;
  type: string;
  needed: boolean;
  /** The table whose `id` it refers to. */
  refers: string | null;
  /** A check constraint of the column or of its domain. */
  check: string | null;
}

interface Table {
  name: string;
  columns: Column[];
}

const APPEND_ONLY = [
  'run_log',
  'messages',
  'checkpoints',
  'agent_versions',
  'tool_permissions',
  'tool_versions',
  'audit_log',
  'policy_versions',
];

/** What maintenance may do over all tenants, and nothing else. */
const MAINTENANCE_ACTS: Record<string, string[]> = {
  agents: ['select'],
  api_keys: ['select'],
  approvals: ['select'],
  audit_heads: ['insert', 'select', 'update'],
  audit_log: ['select'],
  // Ids and times: whose turn it is.
  due_titles: ['select', 'update'],
  // Ids, and who asked: what is left to erase.
  erasures: ['select', 'update'],
  file_contents: ['select'],
  file_uses: ['select'],
  idempotency_keys: ['delete', 'select'],
  // How they stand, not what they say.
  handoffs: ['select'],
  // Whose they are, not what they say.
  memory_accesses: ['delete', 'select'],
  // Ids and times: what is due.
  memory_checks: ['select'],
  // When it goes, not what it says.
  memory_archive: ['select'],
  memory_entries: ['select'],

  memory_extractions: ['delete', 'select'],
  // Ids and times: what is looked at again.
  memory_forgettings: ['select'],
  memory_fragments: ['select'],
  // Names of models.
  memory_models: ['select'],
  outbox: ['delete', 'select'],
  own_model_calls: ['delete', 'select'],
  parked_runs: ['select'],
  reservations: ['delete', 'select'],
  runs: ['select'],
  tasks: ['select'],
  signals: ['delete', 'select'],
  // Whose skills wait for their vectors.
  skills: ['select'],
  tenants: ['insert', 'select'],
  tool_calls: ['select'],
  // Its states and outcomes, not its content.
  turns: ['select'],
  // To claim those that are due it may write one column.
  waits: ['delete', 'select'],
  webhook_deliveries: ['delete', 'select'],
  // Whose turn it is, and to give it: columns of their own. Those of one run go with it.
  webhooks: ['delete', 'select'],
  workspaces: ['select'],
};

const CATALOG = `
  select c.relname as name, json_agg(json_build_object('name', a.attname, 'type', format_type(coalesce(nullif(t.typbasetype, 0), t.oid), null),
    'needed', a.attnotnull and not a.atthasdef or exists (select from pg_constraint k
      where k.conrelid = c.oid and k.contype = 'c' and k.conkey[1] = a.attnum and pg_get_constraintdef(k.oid) ~ 'IS NOT NULL\\) OR'),
    'refers', (select k.confrelid::regclass::text from pg_constraint k where k.conrelid = c.oid and k.contype = 'f' and k.conkey = array[a.attnum]),
    'check', (select pg_get_constraintdef(k.oid) from pg_constraint k where k.contype = 'c'
      and (k.conrelid = c.oid and k.conkey = array[a.attnum] or k.contypid = t.oid) limit 1)) order by a.attnum) as columns
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 join pg_type t on t.oid = a.atttypid
  where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = 'public'::regnamespace and c.relname !~ '^(schema_(migrations|functions)|(maintenance_acts|embedding_settings|embedding_lengths|model_outages|model_rates|rate_counts)$)'
  group by c.relname`;

for (const mode of MODES.filter((each) => each !== 'full')) {
  describe(`The tables in ${mode} mode`, () => {
    const [anna, ben] = [newId(), newId()];
    let testDatabase: TestDatabase;
    let database: Database;
    let tables: Table[];

    before(async () => {
      testDatabase = await openTestDatabase(mode);
      database = testDatabase.database;
      const { rows } = await database.asOwner((client) => client.query<Table>(CATALOG));
      tables = inOrder(rows);
      for (const tenant of [anna, ben]) {
        await database.withTenant(tenant, async (tx) => {
          const ids = new Map<string, string>();
          for (const table of tables) await insertRow(tx, { table, tenant, ids });
        });
      }
    });

    after(() => testDatabase.close());

    const each = async (check: (table: Table, about: { name: string; owner: string }) => Promise<void>) => {
      for (const table of tables) await check(table, { name: table.name, owner: ownerColumn(table) });
    };

    it('all have row level security, forced on the owner too', async () => {
      assert.ok(tables.length >= 17, `${tables.length} tables`);
      const { rows } = await database.asOwner((client) =>
        client.query(
          `select relname from pg_class where relname = any($1) and not (relrowsecurity and relforcerowsecurity)`,
          [tables.map(({ name }) => name)],
        ),
      );
      assert.deepEqual(rows, []);
    });

    it('show a tenant its own row of each table and no other', async () => {
      await each(async (_table, { name, owner }) => {
        for (const tenant of [anna, ben]) {
          const rows = await database.withTenant(tenant, (tx) => tx.query(`select ${owner} as owner from ${name}`));
          assert.deepEqual(rows, [{ owner: tenant }], name);
        }
      });
    });

    it("let nobody write a row of another's", async () => {
      await each(async (table, { name }) => {
        const ids = new Map(tables.map((other) => [other.name, newId()]));
        await assert.rejects(
          database.withTenant(ben, (tx) => insertRow(tx, { table, tenant: anna, ids })),
          /row-level security/,
          name,
        );
      });
    });

    it("let nobody change, take or delete a row of another's", async () => {
      await each(async (_table, { name, owner }) => {
        if (APPEND_ONLY.includes(name)) return;
        const changed = await database.withTenant(ben, (tx) =>
          tx.query(`update ${name} set ${owner} = ${owner} where ${owner} = $1 returning 1`, [anna]),
        );
        assert.deepEqual(changed, [], name);
        const deleted = await database.withTenant(ben, (tx) =>
          tx.query(`delete from ${name} where ${owner} = $1 returning 1`, [anna]),
        );
        assert.deepEqual(deleted, [], name);
        const give = database.withTenant(ben, (tx) => tx.query(`update ${name} set ${owner} = $1`, [anna]));
        await assert.rejects(give, /row-level security|violates foreign key|duplicate key/, name);
      });
    });

    it('keep what is only appended as it is', async () => {
      for (const name of APPEND_ONLY) {
        for (const act of [`update ${name} set tenant_id = tenant_id`, `delete from ${name}`, `truncate ${name}`]) {
          await assert.rejects(
            database.withTenant(anna, (tx) => tx.query(act)),
            /permission denied/,
            act,
          );
        }
      }
    });

    it('show nothing and take nothing where no tenant is set', async () => {
      await each(async (table, { name }) => {
        const text = `select count(*)::int as count from ${name}`;
        assert.deepEqual(await database.call({ name: `count ${name}`, text, values: [] }), [{ count: 0 }], name);
        const { text: insert, values } = insertion({ table, tenant: anna, ids: new Map() });
        await assert.rejects(
          database.call({ name: `insert ${name}`, text: insert, values }),
          /row-level security/,
          name,
        );
      });
    });

    it('are closed again after a transaction', async () => {
      await database.withTenant(anna, (tx) => tx.query('select 1'));
      const text = "select nullif(current_setting('drover.tenant_id', true), '') as tenant";
      assert.deepEqual(await database.call({ name: 'tenant', text, values: [] }), [{ tenant: null }]);
    });

    it("keep the schedule of maintenance, which is nobody's, from the service", async () => {
      for (const text of ['select act from maintenance_acts', 'update maintenance_acts set due_at = now()']) {
        await assert.rejects(
          database.withTenant(anna, (tx) => tx.query(text)),
          /permission denied/,
        );
      }
    });

    it('let maintenance do its named acts over all tenants, and nothing else', async () => {
      await each(async (table, { name, owner }) => {
        const attempts: Record<string, (tx: Tx) => Promise<unknown>> = {
          select: (tx) => tx.query(`select ${owner} from ${name}`),
          insert: (tx) => insertRow(tx, { table, tenant: newId(), ids: new Map() }),
          update: (tx) => tx.query(`update ${name} set ${owner} = ${owner}`),
          delete: (tx) => tx.query(`delete from ${name} where false`),
          truncate: (tx) => tx.query(`truncate ${name}`),
        };
        const allowed: string[] = [];
        for (const [act, attempt] of Object.entries(attempts)) {
          await database.asMaintenance(attempt).then(
            () => allowed.push(act),
            (error: unknown) => assert.match(String(error), /permission denied/, `${act} ${name}`),
          );
        }
        assert.deepEqual(allowed.toSorted(), MAINTENANCE_ACTS[name] ?? [], name);
        if (!allowed.includes('select')) return;
        const rows = await database.asMaintenance((tx) =>
          tx.query<{ owner: string }>(`select ${owner} as owner from ${name}`),
        );
        for (const tenant of [anna, ben])
          assert.ok(
            rows.some((row) => row.owner === tenant),
            name,
          );
      });
    });

    it('open no partition to anybody', async () => {
      const { rows } = await database.asOwner((client) =>
        client.query<{ name: string; open: boolean }>(
          `select c.relname as name, bool_or(has_table_privilege(r, c.oid, 'select, insert, update, delete, truncate')) as open
           from pg_class c, unnest(array['drover_app', 'drover_maintenance']) r where c.relispartition and c.relkind = 'r' group by 1`,
        ),
      );
      assert.ok(rows.length >= 8);
      assert.deepEqual(
        rows.filter(({ open }) => open),
        [],
      );
      const direct = database.withTenant(anna, (tx) => tx.query('select * from run_log_default'));
      await assert.rejects(direct, /permission denied/);
    });

    it("let the service call no function that acts with its owner's rights, but to erase", async () => {
      const { rows } = await database.asOwner((client) =>
        client.query<{ name: string }>(
          `select proname as name from pg_proc where prosecdef and pronamespace = 'public'::regnamespace
             and has_function_privilege('drover_app', oid, 'execute') order by 1`,
        ),
      );
      const erasers = ['erase_checkpoints', 'erase_messages', 'erase_run_events', 'forget_in_events'];
      assert.deepEqual(
        rows.map(({ name }) => name),
        erasers,
      );
      await assert.rejects(
        database.withTenant(ben, (tx) => tx.query('select void_leases()')),
        /permission denied/,
      );
    });

    it("erase nothing of a run that does not say it is erased, nor of another's run", async () => {
      const [run] = await database.withTenant(anna, (tx) => tx.query<{ id: string }>('select id from runs'));
      const erase = (tx: Tx) => tx.query('select erase_messages($1), erase_checkpoints($1)', [run?.id]);
      const events = (tx: Tx) => {
        const list = [1, 2, 3].map((seq) => ({ seq, payload: { gone: true }, schema_version: 1 }));
        return tx.query('select erase_run_events($1, $2::jsonb)', [run?.id, JSON.stringify(list)]);
      };
      const all = async () => {
        const read = (table: string) =>
          database.withTenant(anna, (tx) => tx.query(`select * from ${table} where run_id = $1`, [run?.id]));
        return [await read('messages'), await read('checkpoints'), await read('run_events')];
      };
      const before = await all();
      await database.withTenant(anna, async (tx) => [await erase(tx), await events(tx)]);
      assert.deepEqual(await all(), before);
      const mark = (when: string) =>
        database.withTenant(anna, (tx) => tx.query(`update runs set erased_at = ${when} where id = $1`, [run?.id]));
      await mark('now()');
      await database.withTenant(ben, async (tx) => [await erase(tx), await events(tx)]);
      assert.deepEqual(await all(), before);
      await mark('null');
    });

    it("give nothing of another's through the functions of the hot path", async () => {
      const [run] = await database.withTenant(anna, (tx) => tx.query<{ id: string }>('select id from runs'));
      const [call] = await database.withTenant(anna, (tx) => tx.query<{ id: string }>('select id from tool_calls'));
      assert.ok(run && call);
      const ask = async (name: string, ...values: unknown[]) => {
        const places = values.map((_, index) => `$${index + 1}`).join(', ');
        const text = `select ${name}(${places}) as result`;
        const [row] = await database.call<{ result: unknown }>({ name, text, values });
        return row?.result;
      };
      const nothing = { events: [], runs: { set: { status: 'failed' }, add: {} } };
      const change = JSON.stringify({ tenant_id: ben, run_id: run.id, ...nothing });
      const missing = { ok: false, why: 'missing' };
      const briefly = (result: unknown) => {
        const { ok, why } = result as typeof missing;
        return { ok, why };
      };
      assert.deepEqual(briefly(await ask('commit_run', change)), missing);
      const [first] = (await ask('change_runs', `[${change}]`)) as unknown[];
      assert.deepEqual(briefly(first), missing);
      const claim = { tenant_id: ben, run_id: run.id, seq: 0, claim: true, lease_ms: 1000 };
      assert.deepEqual(briefly(await ask('claim_run', JSON.stringify(claim))), missing);
      assert.equal(await ask('renew_run_lease', ben, run.id, 0, 1000), false);
      assert.equal(await ask('renew_call_lease', ben, call.id, 0, 1000), false);
    });
    for (const days of [800, -80]) {
      it(`take a row of a day ${days} days from now without partition, and move it when there is one`, async () => {
        const id = await idOfDay(database, days);
        await database.withTenant(anna, (tx) =>
          tx.query(
            `insert into run_log (tenant_id, workspace_id, run_id, seq, type, schema_version, actor, payload, occurred_at)
             select $1, $1, $2, n, 'run.started', 1, 'worker', '{}', now() from generate_series(1, 3) n`,
            [anna, id],
          ),
        );
        assert.deepEqual(await placesOf(database, id), ['run_log_default']);
        assert.equal(await astray(database), 3);
        await database.asMaintenance((tx) => tx.query('select ensure_partitions(801)'));
        assert.equal(await astray(database), 0);
        const [partition] = await placesOf(database, id);
        assert.match(partition ?? '', /^run_log_from_\d{8}$/);
        const count = (who: string) =>
          database.withTenant(who, (tx) => tx.query('select seq from run_events where run_id = $1 order by seq', [id]));
        assert.deepEqual(await count(anna), [{ seq: 1 }, { seq: 2 }, { seq: 3 }]);
        assert.deepEqual(await count(ben), []);
      });
    }

    it('get their partitions once, however often they are asked for', async () => {
      const make = () =>
        database.asMaintenance((tx) => tx.query<{ made: number }>('select ensure_partitions(900) as made'));
      const [first] = await make();
      assert.ok(first && first.made > 0 && first.made % 3 === 0);
      assert.deepEqual(await make(), [{ made: 0 }]);
    });
  });
}

async function idOfDay(db: Database, days: number): Promise<string> {
  const { rows } = await db.asOwner((client) =>
    client.query<{ id: string }>(`select uuid_floor(current_date + ${days}) as id`),
  );
  return rows[0]?.id ?? '';
}

async function placesOf(db: Database, run: string): Promise<string[]> {
  const { rows } = await db.asOwner((client) =>
    client.query<{ place: string }>(
      'select distinct tableoid::regclass::text as place from run_log where run_id = $1',
      [run],
    ),
  );
  return rows.map(({ place }) => place);
}

async function astray(db: Database): Promise<number> {
  const [row] = await db.asMaintenance((tx) =>
    tx.query<{ astray: number }>('select rows_in_default_partitions() as astray'),
  );
  return row?.astray ?? -1;
}

/** Tables after those that they refer to. */
function inOrder(tables: Table[]): Table[] {
  const ordered: Table[] = [];
  while (ordered.length < tables.length) {
    const next = tables.find(
      (table) =>
        !ordered.includes(table) &&
        table.columns.every(({ refers }) => refers === null || ordered.some(({ name }) => name === refers)),
    );
    assert.ok(next, 'tables refer to each other in a circle');
    ordered.push(next);
  }
  return ordered;
}

function ownerColumn(table: Table): string {
  return table.name === 'tenants' ? 'id' : 'tenant_id';
}

interface Insertion {
  table: Table;
  tenant: string;
  /** Ids of rows that were inserted, by table: what later ones refer to. */
  ids: Map<string, string>;
}

async function insertRow(tx: Tx, insert: Insertion): Promise<void> {
  const { text, values, id } = insertion(insert);
  if (id) insert.ids.set(insert.table.name, id);
  await tx.query(text, values);
}

/** A row with some value in every column that needs one. */
function insertion({ table, tenant, ids }: Insertion): { text: string; values: unknown[]; id: string | undefined } {
  const columns = table.columns.filter(({ needed }) => needed);
  const values = columns.map((column) => {
    if (column.name === ownerColumn(table)) return tenant;
    if (column.refers !== null) return column.refers === 'tenants' ? tenant : (ids.get(column.refers) ?? newId());
    return someValue(column);
  });
  const names = columns.map(({ name }) => name);
  const text = `insert into ${table.name} (${names.join(', ')}) values (${names.map((_, index) => `$${index + 1}`).join(', ')})`;
  const id = values[names.indexOf('id')];
  return { text, values, id: typeof id === 'string' ? id : undefined };
}

function someValue({ name, type, check }: Column): unknown {
  switch (type) {
    case 'uuid':
      return newId();
    case 'text':
      return /'([^']+)'::text/.exec(check ?? '')?.[1] ?? `text ${newId()}`;
    case 'text[]':
    case 'uuid[]':
      return [];
    case 'jsonb':
      return '{}';
    case 'smallint':
    case 'integer':
    case 'bigint':
    case 'numeric':
      return 1;
    case 'boolean':
      return false;
    case 'date':
    case 'timestamp with time zone':
      return new Date();
    case 'bytea':
      return randomBytes(8);
    default:
      throw new Error(`no value for ${name}, a ${type}`);
  }
}
