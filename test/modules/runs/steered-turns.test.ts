/** What a turn has read while it was open, in runs that do the turn again. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { useReplayKit } from '../../support/replay-kit.ts';
import { createAgent, readLog } from '../../support/runs.ts';
import { waitUntil } from '../../support/wait-until.ts';

const NOTHING = { tokens_in: 0, tokens_out: 0, cost_usd: 0 };

describe('a turn that was steered', () => {
  const kit = useReplayKit(DOMAIN_MODE);
  const { post, get, checkpointsOf, settled, replay, responses, assertSoundFork } = kit;
  /** One whose runs have no checkpoint within a turn. */
  let plain: string;
  let user_id: string;
  let session_id: string;

  const AGENTS = { 'no checkpoint in it': () => plain, 'with checkpoints': () => kit.agent };

  before(async () => void (plain = await createAgent(kit)));
  beforeEach(() => void (user_id = randomUUID()));

  const lookup = () => `call calculator ${JSON.stringify({ expression: '6*7' })}`;
  const chat = async (body: object) => {
    const answer = await post('/agent/chat', { user_id, ...body });
    assert.ok(answer.status < 300, answer.text);
    return answer.json;
  };
  const say = (message: string, mode: string) => chat({ session_id, message, mode });
  const untilAsked = (message: string, times = 1) =>
    waitUntil(`the model is asked: ${message}`, () => kit.model.asked(message).length >= times);
  /** A turn whose model has read a message after its first step, and is asked. */
  const steered = async (agent: string, then: string): Promise<string> => {
    const message = `held first-${kit.label} ${lookup()} | say end ${kit.label}`;
    ({ session_id } = await chat({ agent_id: agent, message }));
    await untilAsked(`held first-${kit.label}`);
    await say(then, 'steer');
    kit.model.release(`first-${kit.label}`);
    await untilAsked(then);
    return (await session()).run_id;
  };
  const session = async () => get(`/agent/session/${session_id}`);
  const said = async (): Promise<string[]> => {
    const { messages } = await session();
    return messages.map(({ content }: { content: string }) => content);
  };
  const isTold = (messages: unknown, text: string) => JSON.stringify(messages).split(text).length - 1;
  const lastAsked = () => kit.model.asked(kit.label).at(-1)?.messages;

  for (const [name, agentOf] of Object.entries(AGENTS)) {
    it(`has read it once in a retry, and what waits comes after it (${name})`, async () => {
      const blue = `hang say blue ${kit.label}`;
      const run = await steered(agentOf(), blue);
      await say(`say later ${kit.label}`, 'queue');
      await post(`/v1/runs/${run}/cancel`);
      const one = (await post(`/v1/runs/${run}/retry`)).json.new_run_id;
      await waitUntil('both are answered', async () => (await said()).at(-1) === `later ${kit.label}`);
      const list = await said();
      assert.equal(list.filter((content) => content === blue).length, 1, list.join());
      assert.ok(list.indexOf(blue) < list.indexOf(`say later ${kit.label}`));
      assert.equal((await session()).queued_message, null);
      assert.equal(isTold(lastAsked(), blue), 1);
      await assertSoundFork(one, 1);
    });
  }

  it('has read it in a retry of a retry, also of many', async () => {
    const blue = `hang say blue ${kit.label}`;
    let run = await steered(plain, blue);
    for (const _ of [1, 2]) {
      await post(`/v1/runs/${run}/cancel`);
      run = (await post(`/v1/runs/${run}/retry`)).json.new_run_id;
    }
    await post(`/v1/runs/${run}/cancel`);
    await post('/v1/runs/retry', { filter: { status: 'cancelled', thread_id: session_id } });
    await waitUntil('it is answered', async () => (await said()).at(-1) === `end ${kit.label}`);
    assert.equal(isTold(lastAsked(), blue), 1);
  });

  for (const [name, agentOf] of Object.entries(AGENTS)) {
    it(`asks no model in a recorded replay and reads all at once in a live one (${name})`, async () => {
      const [first, second] = [`held second-${kit.label} ${lookup()}`, `say two ${kit.label}`];
      const run = await steered(agentOf(), first);
      await say(second, 'steer');
      kit.model.release(`second-${kit.label}`);
      await waitUntil('it has its answer', async () => (await said()).at(-1) === `two ${kit.label}`);
      const count = kit.model.asked(kit.label).length;
      const points = ['start', ...(await checkpointsOf(run)).map(({ id }: { id: string }) => id)];
      for (const checkpoint_id of points) {
        const again = await replay(run, { checkpoint_id, mode: 'recorded' });
        if (again.status !== 'running') continue;
        const end = await settled(again.run_id);
        const differs = (await responses(again.run_id)).flatMap((payload) => payload['differs'] ?? []);
        assert.deepEqual([differs, end.output?.message, end['usage']], [[], `two ${kit.label}`, NOTHING]);
        assert.equal((await get(`/v1/runs/${run}/compare/${again.run_id}`)).first_difference, null);
        const twice = await replay(again.run_id, { checkpoint_id: 'start', mode: 'recorded' });
        assert.deepEqual((await settled(twice.run_id))['usage'], NOTHING);
      }
      assert.equal(kit.model.asked(kit.label).length, count);
      const changed = { mode: 'recorded', config: { model_override: 'anthropic/claude-other' } };
      for (const how of [{}, changed]) {
        const again = await replay(run, { checkpoint_id: 'start', ...how });
        await settled(again.run_id);
        assert.deepEqual([isTold(lastAsked(), `second-${kit.label}`), isTold(lastAsked(), second)], [1, 1]);
      }
    });
  }

  it('reads it in the same node of a graph in a recorded replay', async () => {
    const llm = (name: string, config: object = {}) => ({ name, type: 'llm', config });
    const nodes = [llm('a', { prompt: 'Of {{input}}.', tools: [] }), llm('b', { prompt: 'After {{output}}.' })];
    const edges = [{ from: 'a', to: 'b' }];
    const agent = await createAgent(kit, { workflow_graph: { entry_point: 'a', nodes, edges } });
    ({ session_id } = await chat({ agent_id: agent, message: `held graph-${kit.label} say ${kit.label}` }));
    await untilAsked(kit.label);
    const blue = `make it blue ${kit.label}`;
    await say(blue, 'steer');
    kit.model.release(`graph-${kit.label}`);
    await waitUntil('it is answered', async () => (await session()).status === 'completed');
    assert.equal(isTold(lastAsked(), blue), 1);
    const count = kit.model.asked(kit.label).length;
    const again = await replay((await session()).run_id, { checkpoint_id: 'start', mode: 'recorded' });
    assert.deepEqual((await settled(again.run_id))['usage'], NOTHING);
    assert.equal(kit.model.asked(kit.label).length, count);
  });

  it('is not told of it where a client has put another conversation in its place', async () => {
    const run = await steered(kit.agent, `say blue ${kit.label}`);
    await settled(run);
    const point = (await checkpointsOf(run)).at(-1);
    const messages = [{ role: 'user', content: `say other ${kit.label}` }];
    const again = await replay(run, { checkpoint_id: point.id, modified_state: { messages } });
    assert.equal((await settled(again.run_id)).output?.message, `other ${kit.label}`);
    assert.equal(isTold(lastAsked(), 'blue'), 0);
  });

  it('has had the same keys in it', async () => {
    const run = await steered(plain, `hang say blue ${kit.label}`);
    await post(`/v1/runs/${run}/cancel`);
    const again = (await post(`/v1/runs/${run}/retry`)).json.new_run_id;
    await settled(again);
    const queuedIn = async (of: string) => {
      const log = await readLog(kit, of);
      return log.flatMap(({ type, payload }) => (type === 'message.queued' ? [payload] : []));
    };
    const [[was], [is]] = [await queuedIn(run), await queuedIn(again)];
    assert.ok(was?.['requested_by']);
    assert.deepEqual({ ...is, read_at: 0 }, { ...was, read_at: 0 });
  });

  it('has the rows that its log gives', async () => {
    const { runs, differences } = await rebuildProjections(kit.platform.context.db, { check: true });
    assert.ok(runs > 10);
    assert.deepEqual(differences, []);
  });
});
