import assert from 'node:assert/strict';
import { asUnavailable } from '../../modules/unavailable.ts';
import { newId } from '../../lib/new-id.ts';
import { loadConfig } from '../../config.ts';
import { isDatabaseAway, isDatabaseBusy, type Database } from '../../db/database.ts';
import { openDatabase } from '../../db/open-database.ts';
import { createMigratedDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';
import { openServiceProxy, type ServiceProxy } from '../../scripts/kit/service-proxy.ts';
import { waitUntil } from '../support/wait-until.ts';
import { notify } from '../support/queries/postgres.ts';

if (MODES.includes('postgres')) describe('a Postgres that goes away', onPostgres);

function onPostgres(): void {
  let testDatabase: Awaited<ReturnType<typeof createMigratedDatabase>>;
  let proxy: ServiceProxy;
  let database: Database;
  const reported: Error[] = [];

  before(async () => {
    testDatabase = await createMigratedDatabase();
    proxy = await openServiceProxy(testDatabase.url);
    const config = loadConfig({ DATABASE_URL: proxy.url, DROVER_SECRET_KEY: 'the tests have no secrets' });
    database = await openDatabase(config, { onError: (error) => reported.push(error) });
  });

  after(async () => {
    await database.close();
    await proxy.close();
    await testDatabase.drop();
  });

  const one = () => database.call({ name: 'one', text: 'select 1 as one', values: [] });

  it('fails what is under way and what comes meanwhile, and serves again when it is back', async () => {
    const errors: unknown[] = [];
    const note = (error: unknown) => void errors.push(error);
    await Promise.all([one(), one(), database.asMaintenance((tx) => tx.query('select 1'))]);
    const underWay = database.call({ name: 'sleep', text: 'select pg_sleep(5)', values: [] }).catch(note);
    const inTransaction = database
      .withTenant(newId(), async (tx) => {
        await tx.query('select 1');
        await proxy.cut();
        await tx.query('select 1');
      })
      .catch(note);
    await Promise.all([underWay, inTransaction]);
    await one().catch(note);
    await database.ping(1000).catch(note);
    assert.equal(errors.length, 4);
    for (const error of errors) assert.ok(isDatabaseAway(error), String(error));
    await proxy.restore();
    assert.deepEqual(await one(), [{ one: 1 }]);
    await database.ping(1000);
    assert.ok(reported.length > 0);
    for (const error of reported) assert.ok(!('client' in error), 'with the keys of its connection');
  });

  it('takes no writes where its disk is full, for as long as nobody has found out otherwise', async () => {
    await database.ping(1000);
    const full = `do $$ begin raise exception using errcode = '53100', message = 'could not extend file'; end $$`;
    const failed = database.withTenant(newId(), (tx) => tx.query(full));
    await assert.rejects(
      failed,
      (error) => isDatabaseAway(error) && /no room left/.test(asUnavailable(error)?.message ?? ''),
    );
    await assert.rejects(database.ping(1000), /takes no writes \(disk full\)/);
  });

  it('may be asked again where transactions waited for each other, or where it has no connection left', async () => {
    for (const [code, said] of [
      ['40P01', /nothing was done; the request may be sent again/],
      ['53300', /no connection left; the request may be sent again/],
    ] as const) {
      const refusal = `do $$ begin raise exception using errcode = '${code}', message = 'refused'; end $$`;
      const refused = database.withTenant(newId(), (tx) => tx.query(refusal));
      await assert.rejects(refused, (error) => said.test(asUnavailable(error)?.message ?? ''));
    }
  });

  it('tells listeners of the gap, and they hear again', async () => {
    const heard: string[] = [];
    let gaps = 0;
    const stop = await database.listen(
      'news',
      (payload) => heard.push(payload),
      () => (gaps += 1),
    );
    await proxy.cut();
    await proxy.restore();
    await waitUntil('the gap', () => gaps === 1);
    await notify(database, 'news', 'back');
    await waitUntil('the news', () => heard.length === 1);
    await stop();
  });

  it('tells one that answers nobody from one whose connections others keep busy', async () => {
    const config = loadConfig({
      DATABASE_URL: testDatabase.url,
      DROVER_SECRET_KEY: 'the tests have no secrets',
      DROVER_POOL_SIZE: '1',
    });
    const small = await openDatabase(config, { checkoutTimeoutMs: 400 });
    const sleep = (seconds: number) => ({ name: `sleep ${seconds}`, text: `select pg_sleep(${seconds})`, values: [] });
    const failure = () =>
      small.call(sleep(0)).then(
        () => undefined,
        (error: unknown) => error,
      );
    try {
      await small.ping(1000);
      const silent = small.call(sleep(1));
      const away = await failure();
      assert.ok(isDatabaseAway(away) && !isDatabaseBusy(away), String(away));
      const told = asUnavailable(away);
      assert.equal(
        told?.message,
        'The database did not answer in 0.4 s, on any connection; the request may be sent again.',
      );
      await silent;
      const busy = small.withTenant(newId(), async (tx) => {
        for (let n = 0; n < 30; n++) await tx.query('select pg_sleep(0.03)');
      });
      assert.ok(isDatabaseBusy(await failure()));
      await busy;
    } finally {
      await small.close();
    }
  });

  it('sends a transaction of one query in two round trips, and a call in one', async () => {
    await one();
    const trips = async (act: () => Promise<unknown>) => {
      const before = proxy.roundTrips();
      await act();
      return proxy.roundTrips() - before;
    };
    assert.equal(await trips(one), 1);
    assert.equal(await trips(() => database.withTenant(newId(), (tx) => tx.query('select 1'))), 2);
    assert.equal(await trips(() => database.withTenant(newId(), (tx) => tx.last('select 1'))), 1);
  });

  it('opens as many connections as it may and no more', async () => {
    await Promise.all(Array.from({ length: 100 }, () => one()));
    assert.ok(proxy.count() <= 20 + 4 + 1 + 1, `${proxy.count()} connections`);
  });
}
