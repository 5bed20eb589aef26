import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { DroverError } from '../../../core/errors.ts';
import { findRunRow } from '../../../db/runs.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { eraseRun } from '../../../modules/runs/erase-run.ts';
import { retryRun } from '../../../modules/runs/retry-run.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import { MODES } from '../../support/modes.ts';
import { holdTable, sessionsWaitingIn } from '../../support/queries/postgres.ts';
import { ageIdempotencyKey } from '../../support/queries/tenants.ts';
import { sized } from '../../support/size.ts';
import { waitUntil } from '../../support/wait-until.ts';

const ROUNDS = sized({ usual: 25, nightly: 400 });
/** More round trips to the database than an erasure takes. */
const TRIPS = 120;

if (MODES.includes('postgres')) {
  describe('A run that is retried and erased at once', () => {
    let engine: Engine;
    let agent: string;
    before(async () => {
      engine = await openEngine('postgres');
      agent = await engine.agent();
    });
    after(() => engine.close());

    const cancelled = async (run: string) => {
      const { context, tenantId } = engine;
      await cancelRun(context, { tenantId, runId: run });
      return run;
    };
    const begin = async () => cancelled((await engine.start(agent, 'hello')).run);
    const retry = async (runId: string, key?: string) => {
      const { context, tenantId } = engine;
      const idempotency = { tenantId, route: `retry ${runId}`, body: null, key };
      return (await retryRun(context, { tenantId, runId, mayRaiseAutonomy: true, traceparent: undefined, idempotency }))
        .body.run_id;
    };
    const erase = (id: string) => eraseRun(engine.context, engine.caller, { id, dependents: true });
    const isErased = (id: string) =>
      engine.context.db.withTenant(engine.tenantId, async (tx) => {
        return ((await findRunRow(tx, id))?.erased_at ?? null) !== null;
      });
    /** In each round a few round trips later. */
    const later = async <T>(round: number, work: () => Promise<T>) => {
      for (let trip = (37 * round) % TRIPS; trip > 0; trip--) await engine.context.db.ping(5000);
      return work();
    };
    const made = (ends: readonly PromiseSettledResult<unknown>[]) => {
      for (const end of ends) {
        // Each of them is made, or refused for what the others have made.
        if (end.status === 'rejected' && !(end.reason instanceof DroverError)) throw end.reason;
      }
      return ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []));
    };

    it('is erased with all its retries, or kept with the one that came before, and no two wait for each other', async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const run = await begin();
        const [erasures, retries] = await Promise.all([
          Promise.allSettled([erase(run), erase(run)]),
          Promise.allSettled([
            later(round, () => retry(run)),
            later(round, () => retry(run, randomUUID())),
            later(2 * round, () => retry(run)),
          ]),
        ]);
        const retried = made(retries) as string[];
        assert.equal(await isErased(run), made(erasures).length > 0);
        const states = await Promise.all(retried.map(isErased));
        if (await isErased(run)) assert.ok(states.every(Boolean), 'a retry stands on what is gone');
        else assert.ok(states.filter((erased) => !erased).length <= 1, 'two retries are on the thread');
      }
    });

    it('does not wait for the answer of a key that is used again after its time', async () => {
      const { db } = engine.context;
      const [first, key] = [await begin(), randomUUID()];
      const second = await cancelled(await retry(first, key));
      await ageIdempotencyKey(engine, key);
      let ends: Promise<PromiseSettledResult<unknown>[]> | undefined;
      await db.asOwner(async (client) => {
        // Until the client's end.
        await holdTable(client, 'signals');
        const erasing = erase(second);
        await waitUntil('its rows are erased', async () => {
          return (await sessionsWaitingIn(db, 'signals')).length === 1;
        });
        ends = Promise.allSettled([erasing, retry(first, key)]);
        await waitUntil('the retry waits for it', async () => {
          const waiting = await Promise.all(
            ['threads', 'idempotency_keys'].map((table) => sessionsWaitingIn(db, table)),
          );
          return waiting.flat().length === 1;
        });
      });
      const [, third] = made((await ends) ?? []) as [boolean, string];
      assert.deepEqual([await isErased(second), await isErased(third)], [true, false]);
    });
  });
}
