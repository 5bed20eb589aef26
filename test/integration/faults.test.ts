/** Processes are killed, frozen and told to stop at bad moments. After each, every run has ended as it should have. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startInstallation, type Installation } from '../support/installation.ts';
import { DEATH_MODES } from '../support/modes.ts';
import type { TestProcess } from '../support/processes.ts';
import { assertSound, createAgent, startRun, toolOf, untilRun } from '../support/runs.ts';
import { waitUntil } from '../support/wait-until.ts';

/** Short, so that what a dead process held is free soon; a process that gets no CPU for as long loses its runs as a dead one. */
const LEASE_MS = 5000;
const SHUTDOWN_MS = 4000;
const env = { DROVER_LEASE_MS: String(LEASE_MS), DROVER_SHUTDOWN_MS: String(SHUTDOWN_MS) };

for (const mode of DEATH_MODES) {
  describe(`with processes that die, in ${mode} mode`, () => {
    const embedded = mode === 'embedded';
    let drover: Installation;
    let agent: string;
    let label: string;
    const tool = (name: 'lookup' | 'record' | 'charge', args: Record<string, unknown> = {}) =>
      `${toolOf(agent, name)} ${JSON.stringify({ label, ...args })}`;
    const workers = () => drover.names.filter((name) => embedded || name !== 'api');

    before(async () => {
      drover = await startInstallation(mode, { env });
      agent = await createAgent(drover, { execution_config: { on_unknown: 'tell_model' } });
    });
    after(() => drover?.close());
    beforeEach(() => {
      label = randomUUID();
    });
    afterEach(() => drover.startAll());

    it('asks the model again where kill -9 came in the middle of its answer', async () => {
      const { run } = await startRun(drover, agent, `call ${tool('record')} | hang say ${label}`);
      await waitUntil('the model is asked', () => drover.model.asked(label).length === 2);
      const name = drover.model.asked(label)[1]?.by ?? '';
      await drover.end(name, 'SIGKILL');
      const restarted = embedded ? drover.start(name) : undefined;
      await restarted;
      assert.equal((await untilRun(drover, run)).output?.message, label);
      await assertSound(drover, run);
      assert.deepEqual(
        drover.model.asked(label).map(({ step }) => step),
        [0, 1, 1],
      );
      if (!embedded) {
        assert.notEqual(drover.model.asked(label)[2]?.by, name, 'the other worker went on');
      }
      assert.equal(drover.world.deliveries(label).length, 1);
    });

    it('sends an idempotent call again after kill -9, and any other never', async () => {
      const labels = Array.from({ length: 6 }, () => randomUUID());
      const slow = embedded ? { hang: true } : { ms: 2500 };
      const runs = await Promise.all(
        labels.map((each, index) => {
          const name = toolOf(agent, index % 2 === 0 ? 'record' : 'charge');
          return startRun(drover, agent, `call ${name} ${JSON.stringify({ label: each, ...slow })}`);
        }),
      );
      const deliveries = () => labels.flatMap((each) => drover.world.deliveries(each));
      await waitUntil('all calls are under way', () => deliveries().length === labels.length);
      const killed: string[] = [];
      for (const name of workers()) {
        // Which worker has which call is chance, so that the first may have none.
        if (deliveries().some(({ broken }) => broken)) break;
        killed.push(name);
        await drover.end(name, 'SIGKILL');
        await pause(100);
      }
      await Promise.all(killed.map((name) => drover.start(name)));
      for (const [index, { run }] of runs.entries()) {
        const { output } = await untilRun(drover, run);
        const log = await assertSound(drover, run);
        const [first, ...more] = drover.world.deliveries(labels[index] ?? '');
        const broken = first?.broken === true;
        const repeatable = index % 2 === 0;
        assert.equal(more.length, broken && repeatable ? 1 : 0);
        for (const each of more) assert.deepEqual([each.key, each.call], [first?.key, first?.call]);
        const end = broken && !repeatable ? 'tool.unknown' : 'tool.succeeded';
        assert.equal(log.filter(({ type }) => type === end).length, 1);
        assert.match(output?.message ?? '', broken && !repeatable ? /outcome of this call is unknown/ : /"count":1/);
      }
    });

    if (!embedded) {
      it('lets a frozen driver find out that another has taken its run', async () => {
        const { run } = await startRun(drover, agent, `call ${tool('charge')} | wait 800 say ${label} | never`);
        await waitUntil('the model is asked', () => drover.model.asked(label).length === 2);
        const name = drover.model.asked(label)[1]?.by ?? '';
        drover.process(name).signal('SIGSTOP');
        assert.equal((await untilRun(drover, run)).output?.message, label);
        const log = await assertSound(drover, run);
        drover.process(name).signal('SIGCONT');
        await waitUntil('it has seen that it lost the run', () =>
          drover
            .process(name)
            .log()
            .some((line) => line['run'] === run && line['result'] === 'lost'),
        );
        assert.deepEqual(await assertSound(drover, run), log);
        assert.deepEqual(new Set(drover.model.asked(label).map(({ by }) => by)).size, 2);
        assert.equal(drover.world.deliveries(label).length, 1);
        const { run: next } = await startRun(drover, agent, `say on ${label}`);
        await untilRun(drover, next);
      });

      it('yields at the next step on SIGTERM, and repeats none', async () => {
        const steps = Array.from({ length: 12 }, (_, index) => `wait 100 call calculator {"expression":"${index}"}`);
        const { run } = await startRun(drover, agent, `${steps.join(' | ')} | say ${label}`);
        await waitUntil('the run is under way', () => drover.model.asked(label).length === 3);
        const name = drover.model.asked(label)[0]?.by ?? '';
        const driver = drover.process(name);
        assert.deepEqual(await drover.end(name, 'SIGTERM'), [0, null]);
        assert.deepEqual(endsOf(driver, run), ['yielded'], 'the other worker needs not wait for a lease');
        assert.equal((await untilRun(drover, run)).output?.message, label);
        await assertSound(drover, run);
        assert.deepEqual(
          drover.model.asked(label).map(({ step }) => step),
          Array.from({ length: 13 }, (_, index) => index),
        );
      });

      it('gives back a call to the model that takes longer than the grace period', async () => {
        const { run } = await startRun(drover, agent, `hang say ${label}`);
        await waitUntil('the model is asked', () => drover.model.asked(label).length === 1);
        const name = drover.model.asked(label)[0]?.by ?? '';
        const driver = drover.process(name);
        assert.deepEqual(await drover.end(name, 'SIGTERM'), [0, null]);
        assert.deepEqual(endsOf(driver, run), ['yielded'], 'the other worker needs not wait for a lease');
        assert.equal((await untilRun(drover, run)).output?.message, label);
        await assertSound(drover, run);
        assert.equal(drover.model.asked(label).length, 2);
      });
    }

    it('loses no accepted run where the API dies among requests, and makes none twice', async () => {
      const keys = Array.from({ length: 12 }, () => randomUUID());
      const post = (key: string) =>
        drover.call('POST', `/v1/agents/${agent}/runs`, {
          body: { input: { message: `call ${toolOf(agent, 'charge')} {"label":"${key}"} | say ${label} ${key}` } },
          headers: { 'idempotency-key': key },
        });
      /** As a client does: what is answered with 503 is sent again. */
      const accepted = async (key: string) => {
        let run: string | undefined;
        await waitUntil('the run is accepted', async () => {
          const { status, json } = await post(key);
          assert.ok(status === 202 || status === 503, JSON.stringify(json));
          run = json.run_id;
          return status === 202;
        });
        return run ?? '';
      };
      const first = keys.map(post);
      await Promise.any(first);
      await drover.end('api', 'SIGKILL');
      const answered = (await Promise.allSettled(first)).flatMap((each) =>
        each.status === 'fulfilled' ? [each.value.json.run_id as string] : [],
      );
      await drover.start('api');
      const runs = await Promise.all(keys.map(accepted));
      assert.deepEqual(
        answered.filter((run) => !runs.includes(run)),
        [],
      );
      for (const [index, run] of runs.entries()) {
        assert.equal((await untilRun(drover, run)).output?.message, `${label} ${keys[index]}`);
        await assertSound(drover, run);
        assert.equal(drover.world.deliveries(keys[index] ?? '').length, 1);
      }
      assert.equal(drover.model.asked(label).length, 2 * keys.length);
      const since = (await drover.call('GET', `/v1/agents/${agent}/runs?limit=200`)).json.runs;
      assert.equal(
        since.filter(({ output }: { output?: { message: string } }) => output?.message.startsWith(label)).length,
        keys.length,
      );
    });
  });
}

/** How the process has left the run. */
const endsOf = (driver: TestProcess, run: string) =>
  driver.log().flatMap((line) => (line['run'] === run && line['msg'] === 'job' ? [line['result']] : []));

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
