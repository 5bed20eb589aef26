/** Workers are killed while remote agents work for a workflow: each remote task is begun once, and its result is taken. */
import assert from 'node:assert/strict';
import { methodOf, startA2aServer, type A2aServer } from '../support/a2a-server.ts';
import { startInstallation, type Installation } from '../support/installation.ts';
import { DOMAIN_MODE, MODES } from '../support/modes.ts';
import { sized } from '../support/size.ts';
import { waitUntil } from '../support/wait-until.ts';

const env = { DROVER_LEASE_MS: '3000', DROVER_SHUTDOWN_MS: '4000' };

interface Task {
  subtask_id: string;
  status: string;
  retry_count: number;
  run_id: string;
  output: { result?: string } | null;
}

for (const mode of sized({ usual: [DOMAIN_MODE], nightly: MODES })) {
  describe(`with workers that die while remote agents work, in ${mode} mode`, () => {
    let drover: Installation;
    let remote: A2aServer;

    before(async () => {
      remote = await startA2aServer();
      drover = await startInstallation(mode, { env });
      const tool = {
        name: 'ask_lawyer',
        description: 'Has a remote agent do it.',
        input_schema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
        transport: { type: 'a2a', endpoint: remote.url },
        // Else a person would be asked before the second task is told what the first has come to.
        output_trust: 'trusted',
      };
      await made('/v1/tools', tool);
      const node = { name: 'remote', type: 'tool', config: { tool: tool.name, input: { message: '{{input}}' } } };
      await made('/v1/agents', { name: 'lawyer', workflow_graph: { entry_point: 'remote', nodes: [node], edges: [] } });
    });
    beforeEach(() => {
      remote.seen.length = 0;
      remote.intercept = () => false;
    });
    afterEach(() => drover.startAll());
    after(async () => {
      await drover?.close();
      await remote?.close();
    });

    const made = async (path: string, body: unknown) => {
      const { status, json, text } = await drover.call('POST', path, { body });
      assert.ok(status < 300, text);
      return json;
    };
    const read = async (path: string) => (await drover.call('GET', path)).json;
    /** Two subtasks for the remote agent, the second of which is given what the first has come to. */
    const start = async (first: string): Promise<string> => {
      const subtask = (id: string, description: string, ...dependencies: string[]) => ({
        id,
        description,
        dependencies,
        agent: 'lawyer',
      });
      const subtasks = [subtask('first', first), subtask('second', 'say then:', 'first')];
      const { id } = await made('/v1/workflows', {
        name: 'remote',
        input: { user_query: 'Go.' },
        definition: { subtasks },
      });
      return id;
    };
    const tasksOf = async (id: string): Promise<Task[]> => (await read(`/v1/workflows/${id}`)).tasks;
    /** Kills every process that makes calls, once one of them waits for the answer to such a request, which never comes. */
    const killDuring = async (method: string): Promise<void> => {
      let isAsked = false;
      remote.intercept = ({ body }) => {
        isAsked ||= methodOf(body) === method;
        return isAsked;
      };
      await waitUntil(`${method} is under way`, () => isAsked);
      const victims = drover.names.filter((name) => mode === 'embedded' || name !== 'api');
      await Promise.all(victims.map((name) => drover.end(name, 'SIGKILL')));
      remote.intercept = () => false;
      await Promise.all(victims.map((name) => drover.start(name)));
    };
    const completed = async (id: string): Promise<Task[]> => {
      await waitUntil('the workflow ends', async () =>
        ['completed', 'failed', 'cancelled'].includes((await read(`/v1/workflows/${id}`)).status),
      );
      const tasks = await tasksOf(id);
      assert.deepEqual(
        tasks.map(({ subtask_id, status, retry_count }) => [subtask_id, status, retry_count]),
        [
          ['first', 'completed', 0],
          ['second', 'completed', 0],
        ],
      );
      return tasks;
    };
    /** The messages that the agent was sent, without those that it was sent again under the same id. */
    const messages = () => {
      const sent = remote.seen
        .filter(({ body }) => methodOf(body) === 'SendMessage')
        .map(({ body }) => JSON.parse(body).params.message as { messageId: string; taskId?: string });
      return { sent, begun: sent.filter(({ taskId }) => taskId === undefined).length };
    };

    it('kill -9 while a remote task is worked on, and looked at', async () => {
      const id = await start('held paper');
      await waitUntil('it is begun', () => remote.count('SendMessage') === 1);
      for (let round = 0; round < 2; round++) await killDuring('GetTask');
      remote.release();
      const [, second] = await completed(id);
      assert.match(second?.output?.result ?? '', /paper/);
      assert.deepEqual([messages().begun, messages().sent.length], [2, 2]);
    });

    it('kill -9 while a remote task that has asked is told the answer', async () => {
      const id = await start('ask which?');
      const [first] = await tasksOf(id);
      assert.ok(first);
      const runOf = async () => (await tasksOf(id)).find(({ subtask_id }) => subtask_id === 'first')?.run_id ?? '';
      await waitUntil('it asks', async () => {
        const run = await runOf();
        return run !== '' && (await read(`/v1/runs/${run}`)).waiting_for?.question === 'which?';
      });
      const headers = { prefer: 'respond-async' };
      const body = { answer: 'say the blue one' };
      const { status } = await drover.call('POST', `/v1/runs/${await runOf()}/resume`, { body, headers });
      assert.equal(status, 202);
      await killDuring('SendMessage');
      const [, second] = await completed(id);
      assert.match(second?.output?.result ?? '', /the blue one/);
      const { sent, begun } = messages();
      assert.equal(begun, 2);
      assert.equal(new Set(sent.map(({ messageId }) => messageId)).size, 3, 'what was sent again is the same message');
    });
  });
}
