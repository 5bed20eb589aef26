/** Redis is flushed and stopped, Postgres crashes, while runs are under way. All go on by themselves, and none is lost. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createTestDatabaseAt } from '../support/database.ts';
import { startInstallation, type Installation } from '../support/installation.ts';
import { MODES, MUST_BE_COMPLETE, type Mode } from '../support/modes.ts';
import { startOwnServices, type OwnServices } from '../support/own-services.ts';
import { sized } from '../support/size.ts';
import { assertSound, createAgent, startRun, toolOf, untilRun, type LogEvent } from '../support/runs.ts';
import { waitUntil } from '../support/wait-until.ts';

const env = {
  DROVER_LEASE_MS: '1500',
  // So that most of what is under way waits in the queue.
  DROVER_CONCURRENCY: 'turns=2,tool-calls=2',
};

describe('with services that go away', () => {
  let services: OwnServices | undefined;
  before(async function () {
    services = MODES.includes('full') ? await startOwnServices() : undefined;
    if (services !== undefined) return;
    if (MUST_BE_COMPLETE && MODES.includes('full')) assert.fail('Postgres and Redis are not installed here');
    this.skip();
  });
  after(() => services?.close());

  for (const mode of sized<Mode[]>({ usual: ['full'], nightly: ['full', 'postgres'] })) {
    describe(`in ${mode} mode`, () => {
      let drover: Installation;
      let agent: string;
      let labels: string[];
      const outage = () => services ?? assert.fail('no services');

      before(async () => {
        const { databaseUrl, redisUrl } = outage();
        const testDatabase = await createTestDatabaseAt(databaseUrl);
        drover = await startInstallation(mode, { env, databaseUrl: testDatabase.url, redisUrl });
        agent = await createAgent(drover, { execution_config: { on_unknown: 'tell_model' } });
      });
      after(() => drover?.close());
      beforeEach(() => {
        labels = Array.from({ length: 10 }, () => randomUUID());
      });

      const start = (label: string) => {
        const call = (name: 'record' | 'charge') => `${toolOf(agent, name)} {"label":"${label}","ms":150}`;
        return startRun(drover, agent, `call ${call('record')} & ${call('charge')} | wait 150 say ${label}`);
      };
      const untilSome = () =>
        waitUntil(
          'some have come to their tools',
          () => labels.filter((l) => drover.world.deliveries(l).length > 0).length > 2,
        );
      const assertAllDone = async (runs: { run: string }[]) => {
        for (const [index, { run }] of runs.entries()) {
          const label = labels[index] ?? '';
          assert.equal((await untilRun(drover, run)).output?.message, label);
          const log = await assertSound(drover, run);
          const keys = new Set(drover.world.deliveries(label).map(({ key }) => key));
          // A claim whose answer went down with Postgres was made, and its call was never sent: nobody can tell, so it is unknown.
          const unsent = unknownKeys(run, log).filter((key) => !keys.has(key));
          assert.equal(keys.size + unsent.length, 2);
        }
      };
      const untilReady = () =>
        waitUntil('it is ready again', async () => (await drover.call('GET', '/readyz')).status === 200);
      const pids = () => drover.names.map((name) => drover.process(name).pid);

      if (mode === 'full') {
        it('goes on where Redis was flushed, which has nothing that the database has not', async () => {
          const runs = await Promise.all(labels.map(start));
          await untilSome();
          await outage().flushRedis();
          await assertAllDone(runs);
          for (const label of labels) assert.equal(drover.world.deliveries(label).length, 2);
          const later = await Promise.all(labels.slice(0, 2).map((label) => startRun(drover, agent, `say ${label}`)));
          for (const { run } of later) await untilRun(drover, run);
        });

        it('takes requests while Redis is away, and does their work when it is back', async () => {
          const before = pids();
          const early = await Promise.all(labels.slice(0, 5).map(start));
          await outage().stopRedis();
          const ready = await drover.call('GET', '/readyz');
          assert.deepEqual([ready.status, ready.json.checks.queue], [503, 'away']);
          const askedMs = Date.now();
          const late = await Promise.all(labels.slice(5).map(start));
          assert.ok(Date.now() - askedMs < 10_000, 'a request does not wait for Redis');
          await outage().start();
          await untilReady();
          await assertAllDone([...early, ...late]);
          assert.deepEqual(pids(), before);
        });
      }

      it('answers 503 while Postgres is away, and goes on where it was', async () => {
        const before = pids();
        const runs = await Promise.all(labels.map(start));
        await untilSome();
        await outage().crashPostgres();
        const requests = [
          drover.call('POST', `/v1/agents/${agent}/runs`, { body: { input: { message: 'say no' } } }),
          drover.call('GET', `/v1/runs/${runs[0]?.run}`),
          drover.call('GET', '/readyz'),
        ];
        for (const answer of await Promise.all(requests)) {
          assert.equal(answer.status, 503, answer.text);
          assert.match(answer.headers.get('content-type') ?? '', /^application\/problem\+json/);
          assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
        }
        await outage().start();
        await untilReady();
        await assertAllDone(runs);
        assert.deepEqual(pids(), before);
      });
    });
  }
});

/** Idempotency keys of the calls whose outcome nobody knows. */
function unknownKeys(run: string, log: readonly LogEvent[]): string[] {
  const eventsOf = (type: string) => log.filter((event) => event.type === type);
  const unknown = new Set(eventsOf('tool.unknown').map(({ payload }) => payload['tool_call_id']));
  const calls = eventsOf('tool.requested').filter(({ payload }) => unknown.has(payload['tool_call_id']));
  return calls.map(({ step, payload }) => `${run}-${step}-${String(payload['place'])}`);
}
