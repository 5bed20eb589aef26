/** Processes are killed in every phase of a workflow. No subtask is lost, none is done twice, and no parent waits for ever. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startInstallation, type Installation } from '../support/installation.ts';
import { DOMAIN_MODE, MODES } from '../support/modes.ts';
import { createAgent, startRun, toolOf, untilRun } from '../support/runs.ts';
import { sized } from '../support/size.ts';
import { waitUntil } from '../support/wait-until.ts';

const env = { DROVER_LEASE_MS: '5000', DROVER_SHUTDOWN_MS: '4000' };
const ENDED = ['completed', 'failed', 'cancelled'];
const PHASES = ['first', 'middle', 'last'] as const;

interface Workflow {
  status: string;
  tasks: { subtask_id: string; status: string; retry_count: number; run_id: string | null }[];
}

for (const mode of sized({ usual: [DOMAIN_MODE], nightly: MODES })) {
  describe(`with processes that die under workflows, in ${mode} mode`, () => {
    let drover: Installation;
    let agent: string;

    before(async () => {
      drover = await startInstallation(mode, { env });
      agent = await createAgent(drover, { execution_config: { on_unknown: 'tell_model' } });
    });
    after(() => drover?.close());
    afterEach(() => drover.startAll());

    /** Each once; or not at all where a process was killed between the claim of its call and the request, which its model is told. */
    const hadTheirEffects = async (effects: readonly string[], runs: readonly string[]) => {
      const times = effects.map((effect) => drover.world.deliveries(effect).length);
      const unknown = await Promise.all(
        runs.map(async (run) => {
          const { events } = (await drover.call('GET', `/v1/runs/${run}/events?types=tool.unknown`)).json;
          return (events as unknown[]).length;
        }),
      );
      const most = effects.length;
      const least = most - unknown.reduce((sum, count) => sum + count, 0);
      const done = times.reduce((sum, count) => sum + count, 0);
      assert.ok(times.every((count) => count <= 1) && done >= least && done <= most, `effects: ${times.join(', ')}`);
    };

    it(`kill -9 while the ${PHASES.join(', the ')} subtasks are done`, async () => {
      const label = randomUUID();
      const subtasks = PHASES.flatMap((phase, level) =>
        [0, 1, 2].map((index) => {
          const effect = JSON.stringify({ label: `${label}-${phase}-${index}`, ms: 200 });
          const before = PHASES[level - 1];
          return {
            id: `${phase}-${index}`,
            description: `call ${toolOf(agent, 'charge')} ${effect} | say ok`,
            dependencies: before ? [`${before}-${index}`, `${before}-${(index + 1) % 3}`] : [],
          };
        }),
      );
      const body = { name: 'faults', agent_id: agent, input: { user_query: label }, definition: { subtasks } };
      const { json: made } = await drover.call('POST', '/v1/workflows', { body });
      const id = String(made.id);
      const read = async (): Promise<Workflow> => (await drover.call('GET', `/v1/workflows/${id}`)).json;
      const victims = drover.names.filter((name) => mode === 'embedded' || name !== 'api');
      for (const [round, phase] of PHASES.entries()) {
        await waitUntil(`the ${phase} subtasks are begun`, async () => {
          const { status, tasks } = await read();
          return (
            ENDED.includes(status) ||
            tasks.some((task) => task.subtask_id.startsWith(phase) && task.status !== 'pending')
          );
        });
        const name = victims[round % victims.length] ?? '';
        await drover.end(name, 'SIGKILL');
        await drover.start(name);
      }
      await waitUntil('the workflow ends', async () => ENDED.includes((await read()).status));
      const { status, tasks } = await read();
      assert.equal(status, 'completed');
      for (const task of tasks) {
        assert.deepEqual([task.subtask_id, task.status, task.retry_count], [task.subtask_id, 'completed', 0]);
      }
      await hadTheirEffects(
        tasks.map(({ subtask_id }) => `${label}-${subtask_id}`),
        tasks.map(({ run_id }) => String(run_id)),
      );
      const { json } = await drover.call('GET', `/v1/runs?parent=${id}&limit=200`);
      assert.deepEqual(
        json.runs.map((run: { status: string }) => run.status),
        tasks.map(() => 'completed'),
      );
    });

    it('kill -9 while agents do what another one has delegated', async () => {
      const label = randomUUID();
      const { json: lead } = await drover.call('POST', '/v1/agents', {
        body: { name: `lead ${label}`, tools: ['delegate'] },
      });
      const parts = Array.from({ length: 6 }, (_, n) => `${label}-${n}`);
      const wishes = parts.map((part, n) => {
        const effect = JSON.stringify({ label: part, ms: 100 * (n + 1) });
        return `delegate ${JSON.stringify({ agent, description: `call ${toolOf(agent, 'charge')} ${effect}` })}`;
      });
      const { run } = await startRun(drover, lead.id, `call ${wishes.join(' & ')} | say all of it`);
      const victims = drover.names.filter((name) => mode === 'embedded' || name !== 'api');
      const children = async () =>
        (await drover.call('GET', `/v1/runs?parent=${run}`)).json.runs as { run_id: string; status: string }[];
      for (const [round, count] of [1, 4].entries()) {
        await waitUntil('children are there, or have ended', async () => {
          const there = await children();
          return (round === 0 ? there : there.filter(({ status }) => ENDED.includes(status))).length >= count;
        });
        const name = victims[round % victims.length] ?? '';
        await drover.end(name, 'SIGKILL');
        await drover.start(name);
      }
      const { status, output } = await untilRun(drover, run);
      assert.deepEqual([status, output?.message], ['completed', 'all of it']);
      const ofThem = await children();
      await hadTheirEffects(
        parts,
        ofThem.map(({ run_id }) => run_id),
      );
      assert.deepEqual(
        ofThem.map(({ status: end }) => end),
        parts.map(() => 'completed'),
      );
    });

    it('kill -9 while agents hand their conversations over', async () => {
      const label = randomUUID();
      const agentOf = async (name: string, tools: string[]) =>
        (await drover.call('POST', '/v1/agents', { body: { name: `${name} ${label}`, tools } })).json.id as string;
      const source = await agentOf('source', ['handoff']);
      const target = await agentOf('target', []);
      const wish = JSON.stringify({ to_agent: target, reason: 'Better at it' });
      const runs = await Promise.all(
        Array.from({ length: 6 }, () => startRun(drover, source, `call handoff ${wish} | say over`)),
      );
      const read = async (path: string) => (await drover.call('GET', path)).json;
      const handoffs = async () =>
        (await read(`/v1/handoffs?source_agent_id=${source}`)).handoffs as { status: string; source_run_id: string }[];
      const victims = drover.names.filter((name) => mode === 'embedded' || name !== 'api');
      for (const [round, count] of [1, 4].entries()) {
        await waitUntil('handoffs are there, or taken', async () => {
          const there = await handoffs();
          return (round === 0 ? there : there.filter(({ status }) => status !== 'initiated')).length >= count;
        });
        const name = victims[round % victims.length] ?? '';
        await drover.end(name, 'SIGKILL');
        await drover.start(name);
      }
      const wanted = runs.map(({ run }) => run).toSorted();
      await waitUntil('all are taken and done', async () => {
        const there = await handoffs();
        return there.length === wanted.length && there.every(({ status }) => status === 'completed');
      });
      assert.deepEqual((await handoffs()).map(({ source_run_id: run }) => run).toSorted(), wanted);
      const taken = (await read(`/v1/runs?agent_id=${target}&limit=200`)).runs as {
        status: string;
        thread_id: string;
      }[];
      assert.deepEqual(
        taken.map(({ status }) => status),
        wanted.map(() => 'completed'),
      );
      assert.equal(new Set(taken.map(({ thread_id: thread }) => thread)).size, wanted.length);
    });
  });
}
