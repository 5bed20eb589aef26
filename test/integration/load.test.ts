/** By night, many runs with the Procfile's processes: all complete, none is repeated, no job fails. Prints how fast. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { CONTRACTS } from '../../jobs/contracts.ts';
import { startInstallation, type Installation } from '../support/installation.ts';
import { MODES } from '../support/modes.ts';
import { sized } from '../support/size.ts';
import { assertSound, collect, createAgent, follow, startRun, toolOf } from '../support/runs.ts';

const LOADS = sized({
  usual: [],
  nightly: [
    { runs: 200, atOnce: 1 },
    { runs: 200, atOnce: 20 },
  ],
});

if (MODES.includes('full') && LOADS.length > 0) {
  describe('an API and two workers on Redis and Postgres', function () {
    this.timeout(240_000);
    let drover: Installation;
    let agent: string;
    before(async () => {
      drover = await startInstallation('full');
      agent = await createAgent(drover);
    });
    after(() => drover?.close());

    for (const { runs: total, atOnce } of LOADS) {
      it(`complete ${total} runs with two tool calls each, ${atOnce} at a time`, async () => {
        const label = randomUUID();
        const tool = (name: 'record' | 'charge') => `call ${toolOf(agent, name)} {"label":"${label}"}`;
        const script = `${tool('record')} | ${tool('charge')} | say ${label}`;
        const tookMs: number[] = [];
        const runs: string[] = [];
        const startedMs = performance.now();
        const one = async () => {
          const beganMs = performance.now();
          const { run } = await startRun(drover, agent, script);
          const events = await collect(follow(drover, `/v1/runs/${run}/stream`));
          tookMs.push(performance.now() - beganMs);
          assert.deepEqual(events.at(-1)?.data['output'], { message: label });
          runs.push(run);
        };
        await Promise.all(
          Array.from({ length: atOnce }, async () => {
            for (let n = 0; n < total / atOnce; n++) await one();
          }),
        );
        print(atOnce, tookMs, performance.now() - startedMs);

        for (const run of runs) await assertSound(drover, run);
        const keys = drover.world.deliveries(label).map(({ key }) => key);
        assert.deepEqual([keys.length, new Set(keys).size], [2 * total, 2 * total]);
        assert.equal(drover.model.asked(label).length, 3 * total);
        const { text } = await drover.call('GET', '/metrics');
        const failed = [...text.matchAll(/^drover_queue_jobs\{queue="([^"]+)",state="failed"\} (\d+)$/gm)];
        assert.deepEqual(
          new Map(failed.map(([, queue, count]) => [queue, count])),
          new Map(CONTRACTS.map(({ name }) => [name, '0'])),
        );
      });
    }

    it('leave nothing in the queues', async () => {
      const { text } = await drover.call('GET', '/metrics');
      const left = [...text.matchAll(/^drover_queue_jobs\{queue="(?:turns|tool-calls)",state="(\S+)"\} (\d+)$/gm)];
      const open = left.filter(([, state, count]) => state !== 'completed' && count !== '0');
      assert.deepEqual(open, []);
    });
  });
}

function print(atOnce: number, tookMs: number[], wholeMs: number): void {
  const sorted = tookMs.toSorted((a, b) => a - b);
  const at = (share: number) => Math.round(sorted[Math.floor(share * (sorted.length - 1))] ?? 0);
  const perSecond = (1000 * tookMs.length) / wholeMs;
  console.log(
    `      ${atOnce} at a time: ${perSecond.toFixed(1)} runs/s, p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, slowest ${at(1)} ms`,
  );
}
