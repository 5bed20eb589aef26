import assert from 'node:assert/strict';
import fc from 'fast-check';
import { newId } from '../../lib/new-id.ts';
import { inJsonbOrder } from '../../db/jsonb-order.ts';
import { isDatabaseAway, isDatabaseBusy, type Database } from '../../db/database.ts';
import { DatabaseBusyError } from '../../db/database-errors.ts';
import { openDatabase } from '../../db/open-database.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';
import { waitUntil } from '../support/wait-until.ts';
import { notify } from '../support/queries/postgres.ts';

const WHO = `select current_user::text as role, nullif(current_setting('drover.tenant_id', true), '') as tenant`;

for (const mode of MODES.filter((each) => each !== 'full')) {
  describe(`the database in ${mode} mode`, () => {
    let testDatabase: TestDatabase;
    let database: Database;

    before(async () => {
      testDatabase = await openTestDatabase(mode, { DROVER_POOL_SIZE: '3' }, { checkoutTimeoutMs: 2000 });
      database = testDatabase.database;
      await database.asOwner(async (client) => {
        await client.query(`create table notes (id int primary key, tenant_id uuid not null);
          alter table notes enable row level security; alter table notes force row level security;
          create policy own on notes to drover_app using
            (tenant_id = nullif(current_setting('drover.tenant_id', true), '')::uuid);
          grant select, insert, update on notes to drover_app`);
      });
    });

    after(() => testDatabase.close());

    const add = (tenant: string, id: number) =>
      database.withTenant(tenant, (tx) => tx.query('insert into notes values ($1, $2)', [id, tenant]));
    const idsOf = (tenant: string) =>
      database.withTenant(tenant, async (tx) =>
        (await tx.query<{ id: number }>('select id from notes')).map((r) => r.id),
      );

    it('acts as the role and the tenant that were asked for, however they alternate', async () => {
      const tenant = newId();
      const tenantWho = () => database.withTenant(tenant, (tx) => tx.query(WHO));
      const maintenanceWho = () => database.asMaintenance((tx) => tx.query(WHO));
      const callWho = () => database.call({ name: 'who', text: WHO, values: [] });
      const answers = await Promise.all(
        Array.from({ length: 10 }, () => [tenantWho(), maintenanceWho(), callWho()]).flat(),
      );
      answers.forEach(([answer], index) => {
        const expected = [
          { role: 'drover_app', tenant },
          { role: 'drover_maintenance', tenant: null },
          { role: 'drover_app', tenant: null },
        ];
        assert.deepEqual(answer, expected[index % 3]);
      });
    });

    it('sorts the keys of jsonb in an order that is known before a value is stored', async () => {
      await fc.assert(
        fc.asyncProperty(fc.jsonValue({ maxDepth: 3, stringUnit: 'grapheme' }), async (value) => {
          // `jsonb` takes no NUL.
          fc.pre(!JSON.stringify(value).includes(String.raw`\u0000`));
          const [row] = await database.asMaintenance((tx) =>
            tx.query<{ stored: unknown }>('select $1::jsonb as stored', [JSON.stringify(value)]),
          );
          assert.equal(JSON.stringify(inJsonbOrder(value)), JSON.stringify(row?.stored));
        }),
      );
    });

    it('shows a tenant its own rows, and nothing where none is set', async () => {
      const [one, two] = [newId(), newId()];
      await add(one, 101);
      await add(two, 102);
      assert.deepEqual(await idsOf(one), [101]);
      assert.deepEqual(await idsOf(two), [102]);
      assert.deepEqual(await database.call({ name: 'all', text: 'select id from notes', values: [] }), []);
      await assert.rejects(
        database.asMaintenance((tx) => tx.query('select id from notes')),
        /permission denied/,
      );
      await assert.rejects(
        database.withTenant(one, (tx) => tx.query('insert into notes values (103, $1)', [two])),
        /row-level security/,
      );
    });

    it('gives values in the same types on both databases', async () => {
      const [row] = await database.withTenant(newId(), (tx) =>
        tx.query(`select 9007199254740991::int8 as big, '{1,null,3}'::int8[] as bigs, count(*) as many, 1.10::numeric as money,
          timestamptz '2026-01-02 03:04:05.678+02' as time, date '2026-01-31' as day, '{"a":[1,null]}'::jsonb as doc,
          '{"b":2}'::json as plain, '\\x00ff'::bytea as bytes, null::int8 as nothing, true as yes, '{a,b}'::text[] as list,
          current_setting('timezone') as zone, 1.5::float8 as ratio from (values (1), (2)) v`),
      );
      assert.deepEqual(row, {
        big: 9007199254740991,
        bigs: [1, null, 3],
        many: 2,
        money: '1.10',
        time: new Date('2026-01-02T01:04:05.678Z'),
        day: '2026-01-31',
        doc: { a: [1, null] },
        plain: { b: 2 },
        bytes: Buffer.from([0, 255]),
        nothing: null,
        yes: true,
        list: ['a', 'b'],
        zone: 'UTC',
        ratio: 1.5,
      });
    });

    if (mode !== 'embedded') {
      it('compiles no statement to machine code, whoever asks', async () => {
        const text = "select current_setting('jit') as jit";
        const answers = await Promise.all([
          database.withTenant(newId(), (tx) => tx.query(text)),
          database.asMaintenance((tx) => tx.query(text)),
          database.asOwner(async (client) => (await client.query(text)).rows),
        ]);
        assert.deepEqual(
          answers,
          Array.from({ length: 3 }, () => [{ jit: 'off' }]),
        );
      });
    }

    it('takes values of every JSON shape back unchanged', async () => {
      const text = fc.string({ unit: 'grapheme' }).map((value) => value.replaceAll('\0', ''));
      const json = fc.jsonValue({ stringUnit: 'grapheme' }).map((value) => JSON.stringify(value));
      await fc.assert(
        fc.asyncProperty(text, fc.maxSafeInteger(), json, async (string, number, document) => {
          const [row] = await database.call<{ string: string; number: number; document: unknown }>({
            name: 'echo',
            text: 'select $1::text as string, $2::int8 as number, $3::json as document',
            values: [string, number, document],
          });
          assert.equal(row?.string, string);
          assert.equal(row?.number, number);
          assert.deepEqual(row?.document, JSON.parse(document));
        }),
        { numRuns: 40, examples: [] },
      );
    });

    it('rolls back and rejects when a statement fails, and the connection is clean afterwards', async () => {
      const tenant = newId();
      await assert.rejects(
        database.withTenant(tenant, async (tx) => {
          await tx.query('insert into notes values (201, $1)', [tenant]);
          await tx.query('select 1 / 0');
        }),
        /division by zero/,
      );
      assert.deepEqual(await idsOf(tenant), []);
    });

    it('rejects with the first error even where the work has caught it', async () => {
      const tenant = newId();
      const work = database.withTenant(tenant, async (tx) => {
        await tx.query('insert into notes values (202, $1)', [tenant]);
        await tx.query('select * from nowhere').catch(() => undefined);
        await tx.query('select 1').catch(() => undefined);
        return 'fine';
      });
      await assert.rejects(work, /nowhere/);
      assert.deepEqual(await idsOf(tenant), []);
    });

    it('asks one statement for a tenant in one round trip, and refuses a second', async () => {
      const [tenant, id] = [newId(), 411];
      const insert = 'insert into notes values ($1, $2) returning id';
      const once = (values: unknown[]) => database.withTenantOnce(tenant, (tx) => tx.query(insert, values));
      assert.deepEqual(await once([id, tenant]), [{ id }]);
      await assert.rejects(once([id, tenant]), /duplicate key/);
      await assert.rejects(once([412, newId()]), /row-level security/);
      assert.deepEqual(await idsOf(tenant), [id]);
      const twice = database.withTenantOnce(tenant, async (tx) => [await tx.query(WHO), await tx.query(WHO)]);
      await assert.rejects(twice, /of one statement/);
      assert.deepEqual(await database.withTenantOnce(tenant, (tx) => tx.query(WHO)), [{ role: 'drover_app', tenant }]);
      assert.deepEqual(await database.call({ name: 'who', text: WHO, values: [] }), [
        { role: 'drover_app', tenant: null },
      ]);
    });

    it('commits along with the last statement, unless one before it has failed, and refuses more', async () => {
      const [tenant, id] = [newId(), 421];
      const insert = 'insert into notes values ($1, $2) returning id';
      const ended = await database.withTenant(tenant, async (tx) => {
        const before = tx.query(insert, [id, tenant]);
        const rows = await tx.last(insert, [id + 1, tenant]);
        return { rows, before: await before, tx };
      });
      assert.deepEqual([ended.before, ended.rows], [[{ id }], [{ id: id + 1 }]]);
      await assert.rejects(ended.tx.query('select 1'), /has ended/);
      await assert.rejects(ended.tx.last('select 1'), /has ended/);
      const afterFailure = (isCaught: boolean) =>
        database.withTenant(tenant, async (tx) => {
          tx.query('select * from nowhere').catch(() => undefined);
          const last = tx.last(insert, [id + 2, tenant]);
          await (isCaught ? last.catch(() => undefined) : last);
        });
      await assert.rejects(afterFailure(false), /nowhere/);
      await assert.rejects(afterFailure(true), /nowhere/);
      const failing = database.withTenant(tenant, async (tx) => {
        await tx.query(insert, [id + 3, tenant]);
        return tx.last(insert, [id, tenant]);
      });
      await assert.rejects(failing, /duplicate key/);
      assert.deepEqual(await idsOf(tenant), [id, id + 1]);
    });

    it('rolls back when the work itself throws', async () => {
      const tenant = newId();
      const work = database.withTenant(tenant, async (tx) => {
        await tx.query('insert into notes values (203, $1)', [tenant]);
        throw new Error('second thoughts');
      });
      await assert.rejects(work, /second thoughts/);
      assert.deepEqual(await idsOf(tenant), []);
    });

    it('rejects a statement that violates a rule checked at the end', async () => {
      await database.asOwner((client) =>
        client.query(`create table pairs (id int unique deferrable initially deferred);
          grant select, insert on pairs to drover_app`),
      );
      const work = database.withTenant(newId(), async (tx) => {
        await tx.query('insert into pairs values (1)');
        await tx.query('insert into pairs values (1)');
      });
      await assert.rejects(work, { code: '23505' });
    });

    it('refuses a query that comes after its transaction has ended', async () => {
      const late = await database.withTenant(newId(), async (tx) => tx);
      await assert.rejects(late.query('select 1'), /has ended/);
    });

    it('keeps a transaction to itself: nothing of another slips in between', async () => {
      const tenant = newId();
      await add(tenant, 300);
      const others: Promise<unknown>[] = [];
      await database
        .withTenant(tenant, async (tx) => {
          for (const id of [301, 302]) {
            others.push(database.call({ name: 'stray', text: 'select 1', values: [] }));
            others.push(add(newId(), id));
            await tx.query('update notes set id = id + 1000 where tenant_id = $1', [tenant]);
          }
          throw new Error('undo');
        })
        .catch((error: Error) => assert.equal(error.message, 'undo'));
      await Promise.all(others);
      assert.deepEqual(await idsOf(tenant), [300]);
    });

    it('prepares a statement once under its name, and again after it has failed', async () => {
      const statement = (values: unknown[]) => ({ name: 'halve', text: 'select 10 / $1::int as half', values });
      assert.deepEqual(await database.call(statement([2])), [{ half: 5 }]);
      await assert.rejects(database.call(statement([0])), /division by zero/);
      assert.deepEqual(await database.call(statement([5])), [{ half: 2 }]);
      await assert.rejects(database.call({ name: 'wrong', text: 'select * from nowhere', values: [] }), /nowhere/);
      await assert.rejects(database.call({ name: 'wrong', text: 'select * from nowhere', values: [] }), /nowhere/);
    });

    it('prepares what comes often, so that it is planned once, but not what gives all columns of a table', async () => {
      const [often, all] = ['select $1::int + 1 as more', 'select * from notes where id = $1'];
      const prepared = await database.withTenant(newId(), async (tx) => {
        for (let n = 0; n < 10; n++) assert.deepEqual(await tx.query(often, [n]), [{ more: n + 1 }]);
        for (let n = 0; n < 10; n++) await tx.query(all, [n]);
        return tx.query<{ statement: string }>('select statement from pg_prepared_statements');
      });
      const statements = prepared.map(({ statement }) => statement);
      assert.ok(statements.includes(often));
      assert.ok(!statements.includes(all));
    });

    it('recovers a prepared statement whose table a migration has changed', async () => {
      const statement = { name: 'stale', text: 'select * from changing', values: [] };
      await database.asOwner((client) =>
        client.query(
          'create table changing (a int); insert into changing values (1); grant select on changing to drover_app',
        ),
      );
      const all = () => Promise.allSettled([1, 2, 3].map(() => database.call(statement)));
      await all();
      await database.asOwner((client) => client.query('alter table changing add column b int default 2'));
      await all();
      await all();
      assert.deepEqual(await database.call(statement), [{ a: 1, b: 2 }]);
    });

    it('refuses at once what comes after it was closed', async () => {
      // An embedded one of its own: the first holds the data directory.
      const closed = await openDatabase(
        mode === 'embedded' ? { ...testDatabase.config, dataDir: 'memory:' } : testDatabase.config,
      );
      await closed.close();
      const late = await closed.withTenant(newId(), (tx) => tx.query('select 1')).catch((error: unknown) => error);
      assert.ok(late instanceof Error);
      assert.match(late.message, /closed/);
      assert.ok(isDatabaseAway(late));
    });

    it('shows one moment for reading alone, where that is asked for', async () => {
      const tenant = newId();
      const ids = () =>
        database.withTenantSnapshot(tenant, async (tx) => {
          const read = async () => (await tx.query<{ id: number }>('select id from notes')).map(({ id }) => id);
          const before = await read();
          // An embedded one has one session: nothing happens meanwhile.
          if (mode !== 'embedded') await add(tenant, 201);
          return [before, await read()];
        });
      assert.deepEqual(await ids(), [[], []]);
      const written = database.withTenantSnapshot(tenant, (tx) =>
        tx.query('insert into notes values (202, $1)', [tenant]),
      );
      await assert.rejects(written, /read-only/);
    });

    it('errs after a bounded wait where every connection is taken, and goes on afterwards', async () => {
      let freeAll: () => void = () => undefined;
      const freed = new Promise<void>((resolve) => {
        freeAll = resolve;
      });
      const held = Array.from({ length: mode === 'embedded' ? 1 : 3 }, () =>
        database.withTenant(newId(), async (tx) => {
          await tx.query('select 1');
          await freed;
        }),
      );
      const nested = await database.call({ name: 'nested', text: 'select 1', values: [] }).then(
        () => undefined,
        (error: unknown) => error,
      );
      assert.ok(nested instanceof Error);
      assert.match(nested.message, mode === 'embedded' ? /busy for 2000 ms.*one session/ : /busy: all 3 connections/);
      assert.ok(isDatabaseBusy(nested) && isDatabaseAway(nested));
      freeAll();
      await Promise.all(held);
      await database.ping(1000);
    });

    it('is there for whoever asks while others have all connections and are answered', async () => {
      const over = new AbortController();
      const busy = Array.from({ length: mode === 'embedded' ? 1 : 3 }, () =>
        database.withTenant(newId(), async (tx) => {
          while (!over.signal.aborted) {
            await tx.query('select pg_sleep(0.01)');
            // The embedded database answers without giving timers their turn.
            await new Promise(setImmediate);
          }
        }),
      );
      try {
        await database.ping(200);
      } finally {
        over.abort();
        await Promise.all(busy);
      }
    });

    it('hears what is sent on a channel, in order, and stops when told to', async () => {
      const heard: string[] = [];
      const stop = await database.listen(
        'odd "channel"',
        (payload) => heard.push(payload),
        () => undefined,
      );
      const second: string[] = [];
      await database.listen(
        'odd "channel"',
        (payload) => second.push(payload),
        () => undefined,
      );
      await notify(database, 'odd "channel"', 'one');
      await notify(database, 'another', 'nothing');
      await notify(database, 'odd "channel"', 'two');
      await waitUntil('both payloads', () => heard.length === 2 && second.length === 2);
      assert.deepEqual(heard, ['one', 'two']);
      await stop();
      await notify(database, 'odd "channel"', 'three');
      await waitUntil('the third payload', () => second.length === 3);
      assert.equal(heard.length, 2);
    });

    it("leaves jsonb's operators and the words of the server as they are", async () => {
      const tx = database.withTenant(newId(), (each) => each.query(`select '{"a":1}'::jsonb ? $1 as has`, ['a']));
      assert.deepEqual(await tx, [{ has: true }]);
      const secret = database.withTenant(newId(), (each) => each.query('select $1::text::int', ['hidden']));
      await assert.rejects(secret, { message: 'invalid input syntax for type integer: "hidden"' });
      const named = database.call({ name: 'zero', text: 'select 1 / $1::int', values: [0] });
      await assert.rejects(named, { message: 'division by zero' });
    });

    it('says that it took over no lock', () => assert.equal(database.tookOverLock, false));
  });
}

describe('isDatabaseAway', () => {
  const coded = (code: string, more: object = {}) => Object.assign(new Error('x'), { code }, more);

  it('knows a database that is gone, by code, by words, by cause', () => {
    const away = [
      ...['ECONNREFUSED', 'ECONNRESET', '57P01', '57P02', '57P03', '08006', '08001', '25006', '53100'].map((code) =>
        coded(code),
      ),
      coded('ENOENT', { address: '/run/postgresql/.s.PGSQL.5432' }),
      new Error('Connection terminated unexpectedly'),
      new Error('Connection terminated due to connection timeout'),
      new DatabaseBusyError('The database was busy for 5 ms.'),
      new Error('wrapped', { cause: new DatabaseBusyError('The database was busy for 5 ms.') }),
      new Error('The database is closed.'),
      new Error('Query read timeout'),
      new Error('wrapped', { cause: coded('ECONNREFUSED') }),
      new AggregateError([coded('ECONNREFUSED')]),
    ];
    for (const error of away) assert.ok(isDatabaseAway(error), `${error.message} ${String(error.cause)}`);
  });

  it('takes nothing else for it', () => {
    for (const error of [coded('23505'), coded('42P01'), coded('ENOENT'), new Error('x'), 'ECONNREFUSED', undefined]) {
      assert.equal(isDatabaseAway(error), false);
    }
  });
});
