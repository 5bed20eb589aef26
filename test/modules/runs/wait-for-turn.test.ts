import assert from 'node:assert/strict';
import type { BusMessage } from '../../../bus/bus.ts';
import { listenForTurn, waitForTurn } from '../../../modules/runs/wait-for-turn.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { firstTurnOf, storedRun } from '../../support/queries/runs.ts';

describe('Whoever waits for a turn', () => {
  let engine: Engine;

  before(async () => {
    engine = await openEngine();
  });

  after(() => engine.close());

  /** A run of two calls, one after the other, which its driver makes itself. */
  async function started(): Promise<{ run: string; turn: string }> {
    const agent = await engine.agent({}, [{ name: 'tool', execution: { inline: true } }]);
    engine.say((request, n) => (n < 2 ? use({ name: offered(request, 'tool') }) : text('There it is.')));
    const { run } = await engine.start(agent, 'hello');
    const turn = await firstTurnOf(engine, run);
    return { run, turn };
  }

  const lastOf = async (run: string) => ({ seq: (await storedRun(engine, run)).last_seq });

  it('is told by the bus which commits go on with it, and which one ends it', async () => {
    const { run } = await started();
    const { seq: created } = await lastOf(run);
    const heard: Extract<BusMessage, { kind: 'advanced' }>[] = [];
    const unsubscribe = engine.context.bus.watch(run, (message) => {
      if (message.kind === 'advanced') heard.push(message);
    });
    await engine.drive(run);
    const { seq: last } = await lastOf(run);
    await waitUntil('all of it is heard', () => heard.at(-1)?.seq === last);
    unsubscribe();
    assert.ok(heard.length > 3, `${heard.length} commits`);
    assert.deepEqual(
      heard.filter(({ seq, isWorking }) => seq > created && isWorking !== true).map(({ seq }) => seq),
      [last],
    );
  });

  it('has it when it has ended', async () => {
    const { run, turn } = await started();
    const { tenantId } = engine;
    const signal = new AbortController().signal;
    const waiting = waitForTurn(engine.context, { tenantId, runId: run, turnId: turn }, { timeoutMs: 60_000, signal });
    await engine.drive(run);
    assert.equal((await waiting)?.status, 'complete');
  });

  it('looks once where it has listened since before the turn began', async () => {
    const { run, turn } = await started();
    const { seq: since } = await lastOf(run);
    let looks = 0;
    const { db } = engine.context;
    const counting = {
      ...db,
      withTenant: () => assert.fail('a look is one round trip'),
      withTenantOnce: (...args: Parameters<typeof db.withTenantOnce>) => {
        looks += 1;
        return db.withTenantOnce(...args);
      },
    } as typeof db;
    const listener = listenForTurn({ ...engine.context, db: counting }, { tenantId: engine.tenantId, runId: run });
    const { signal } = new AbortController();
    const ended = listener.ended(turn, { timeoutMs: 60_000, signal, since });
    await engine.drive(run);
    assert.equal((await ended)?.status, 'complete');
    listener.close();
    assert.equal(looks, 1);
  });
});
