/** A whole installation whose Redis freezes without closing a connection, and has its address taken over by another one. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startInstallation, type Installation } from '../support/installation.ts';
import { startRedisPair, type RedisPair } from '../support/own-redis.ts';
import { assertSound, createAgent, startRun, toolOf, untilRun } from '../support/runs.ts';
import { waitUntil } from '../support/wait-until.ts';

/** 15 s until the silence is noticed; the rest is for a busy machine. */
const SOON_MS = 40_000;

describe('with a Redis that freezes', () => {
  let pair: RedisPair;
  let drover: Installation;
  let agent: string;

  before(async function () {
    const started = await startRedisPair();
    if (started === undefined) return this.skip();
    pair = started;
    drover = await startInstallation('full', { redisUrl: pair.address.url, env: { DROVER_LEASE_MS: '1500' } });
    agent = await createAgent(drover, { execution_config: { on_unknown: 'tell_model' } });
  });
  after(async () => {
    await drover?.close();
    await pair?.close();
  });

  const begin = (labels: readonly string[]) =>
    Promise.all(
      labels.map((label) => {
        const call = (name: 'record' | 'charge') => `${toolOf(agent, name)} {"label":"${label}","ms":150}`;
        return startRun(drover, agent, `call ${call('record')} & ${call('charge')} | wait 150 say ${label}`);
      }),
    );
  const assertDoneOnce = async (labels: readonly string[], runs: readonly { run: string }[]) => {
    for (const [index, { run }] of runs.entries()) {
      const label = labels[index] ?? '';
      assert.equal((await untilRun(drover, run)).output?.message, label);
      await assertSound(drover, run);
      assert.equal(drover.world.deliveries(label).length, 2);
    }
  };
  const newLabels = () => Array.from({ length: 5 }, () => randomUUID());

  it('goes on soon with the Redis that answers at its address, and each call is made once, also when the frozen one goes on', async () => {
    const pids = () => drover.names.map((name) => drover.process(name).pid);
    const [before, early, late, last] = [pids(), newLabels(), newLabels(), newLabels()];
    const earlyRuns = await begin(early);
    await waitUntil('some are at work', () => early.some((label) => drover.world.deliveries(label).length > 0));
    pair.freezeFirst();
    const frozenMs = Date.now();
    const lateRuns = await begin(late);
    await assertDoneOnce([...early, ...late], [...earlyRuns, ...lateRuns]);
    assert.ok(Date.now() - frozenMs < SOON_MS, `${Date.now() - frozenMs} ms`);
    await waitUntil('it is ready', async () => (await drover.call('GET', '/readyz')).status === 200, SOON_MS);
    pair.thawFirst();
    await assertDoneOnce(last, await begin(last));
    for (const label of [...early, ...late]) assert.equal(drover.world.deliveries(label).length, 2);
    assert.deepEqual(pids(), before);
  });
});
