/** Whoever locks several runs, or a run and its task, does it in one order. Its subject is the order of locks. */
import assert from 'node:assert/strict';
import { lockThread, lockThreadsDownTo } from '../../db/threads.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { openEngine } from '../support/engine.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { sessionsWaitingIn } from '../support/queries/postgres.ts';
import { makeChildOf } from '../support/queries/runs.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { sideBySide } from '../support/side-by-side.ts';
import { waitUntil } from '../support/wait-until.ts';

interface Tree {
  run_id: string;
  children: Tree[];
}

describe('Cancelling', () => {
  let api: ScriptedService;
  before(async function () {
    if (DOMAIN_MODE === 'embedded') return this.skip();
    api = await startScriptedService();
  });
  after(() => api?.close());

  /** Requests this while the run is held; once that waits for a run, somebody else takes what `then` names. */
  async function whileHeld(run: string, request: () => Promise<{ status: number; text: string }>, then: string[]) {
    const { db } = api.context;
    let requested: ReturnType<typeof request> | undefined;
    await db.withTenant(DEFAULT_TENANT_ID, async (tx) => {
      await tx.query('select from runs where id = $1 for update', [run]);
      requested = request();
      const waiting = () => sessionsWaitingIn(db, 'for update');
      await waitUntil('it waits for the run', async () => (await waiting()).length > 0);
      await tx.query(`${then[0]} for update nowait`, then.slice(1));
    });
    const { status, text } = (await requested) ?? {};
    assert.ok(status !== undefined && status < 300, text);
  }

  it('locks the runs below one in the order of their ids, as those who commit for several at once', async () => {
    const [agent, middle, worker] = await Promise.all([1, 2, 3].map(() => api.newAgent(['delegate'])));
    const delegate = (to: string | undefined, description: string) =>
      `delegate ${JSON.stringify({ agent: to, description }).replaceAll('|', String.raw`\u007c`)}`;
    const below = `call ${delegate(worker, 'held low say low')}`;
    const message = `call ${delegate(middle, below)} & ${delegate(worker, 'held high say high')}`;
    const begun = await api.call('POST', `/v1/agents/${agent}/runs`, { body: { input: { message } } });
    const { run_id: top } = begun.json;
    for (const name of ['low', 'high']) {
      await waitUntil(`${name} is at work`, () =>
        api.model.asked(`held ${name} say`).some(({ message: said }) => said.startsWith('held')),
      );
    }
    const tree: Tree = (await api.call('GET', `/v1/runs/${top}/tree`)).json;
    const low = tree.children.flatMap(({ children }) => children)[0]?.run_id ?? '';
    const high = tree.children.find(({ children }) => children.length === 0)?.run_id ?? '';
    assert.ok(high < low, 'it was begun before what is below the other one');
    await whileHeld(high, () => api.call('DELETE', `/v1/runs/${top}`), ['select from runs where id = $1', low]);
    api.model.release('low');
    api.model.release('high');
  });

  it('a task locks its run before it, as does the erasure of that run', async () => {
    const agent_id = await api.newAgent([], { name: 'Works', capabilities: [{ skill_name: 'working' }] });
    const subtasks = [
      { id: 'one', description: 'held task say one', dependencies: [] },
      { id: 'two', description: 'held task say two', dependencies: [] },
    ];
    const body = { name: 'w', agent_id, input: { user_query: 'Go.' }, definition: { subtasks } };
    const { workflow_id } = (await api.call('POST', '/v1/workflows', { body })).json;
    const read = async () => (await api.call('GET', `/v1/workflows/${workflow_id}`)).json.tasks;
    await waitUntil('both are at work', () => api.model.asked('held task').length === 2);
    const [task] = await read();
    await whileHeld(task.run_id, () => api.call('POST', `/v1/tasks/${task.id}/cancel`), [
      'select from tasks where id = $1',
      task.id,
    ]);
    api.model.release('task');
  });
});

describe('Repeating a run', () => {
  it('locks the thread of the run above it before its own, as those who begin at the top', async function () {
    if (DOMAIN_MODE === 'embedded') return this.skip();
    const engine = await openEngine();
    const { context, tenantId } = engine;
    const agent = await engine.agent();
    const above = await engine.start(agent, 'above');
    const below = await engine.start(agent, 'below');
    await makeChildOf(engine, below.run, above.run);
    const [, threads] = await sideBySide(engine, {
      first: (tx) => lockThread(tx, above.thread),
      second: () => context.db.withTenant(tenantId, (tx) => lockThreadsDownTo(tx, below.run)),
      statement: 'for update of t',
      last: (tx) => tx.query('select from threads where id = $1 for update nowait', [below.thread]),
    });
    assert.deepEqual(
      threads.map(({ id }) => id),
      [above.thread, below.thread],
    );
    await engine.close();
  });
});
