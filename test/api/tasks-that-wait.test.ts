/** Tasks for agents that take none now. */
import assert from 'node:assert/strict';
import type { TestApi } from '../support/api.ts';
import { agentsOf, hasResult, startAgentsThatSay, text, use, type Say } from '../support/agents-that-say.ts';
import { waitUntil } from '../support/wait-until.ts';

const ENDED = ['completed', 'failed', 'cancelled'];

describe('a task for an agent that takes none now', () => {
  let api: TestApi;
  let key: string;
  let { ids, make, read, agent } = {} as ReturnType<typeof agentsOf>;
  let say: Say;

  before(async () => {
    ({ api } = await startAgentsThatSay((...asked) => say(...asked)));
  });
  after(() => api.close());
  beforeEach(async () => {
    ({ key } = await api.newTenant());
    ({ ids, make, read, agent } = agentsOf(api, key));
    for (const name of ['ada', 'bea', 'cal']) await single(name);
  });

  const single = (name: string) =>
    agent(name, { constraints: { max_concurrent_tasks: 1 }, tools: ['delegate', 'ask_user'] });
  const delegate = (to: string, description: string) => use('delegate', { agent: to, description });
  const suspend = async (name: string, suspended: boolean) => {
    const { status } = await api.call('PATCH', `/v1/agents/${ids[name]}`, { key, body: { suspended } });
    assert.equal(status, 200);
  };
  /** A workflow with a subtask for each of these agents. */
  async function workflow(...agents: string[]): Promise<string> {
    const subtasks = agents.map((name, place) => ({
      id: `${name}-${place}`,
      description: `Begin ${place}.`,
      agent: name,
    }));
    const body = { name: 'x', agent_id: ids['ada'], input: { user_query: 'Why?' }, definition: { subtasks } };
    return (await make('/v1/workflows', body, 202)).id;
  }
  const pending = async (): Promise<{ description: string; pending_reason?: string }[]> =>
    (await read('/v1/tasks?status=pending')).tasks;
  /** Waits until this task waits; returns why it does. */
  async function whyPending(description: string): Promise<string | undefined> {
    const find = async () => (await pending()).find((task) => task.description === description);
    await waitUntil('it waits', async () => (await find()) !== undefined);
    return (await find())?.pending_reason;
  }
  async function ended(path: string) {
    await waitUntil('it ends', async () => ENDED.includes((await read(path)).status));
    return read(path);
  }
  const result = async (id: string) => {
    const { status, result: said } = await ended(`/v1/workflows/${id}`);
    return [status, said];
  };

  it('is done though two agents that take one task each have delegated to each other at the same time', async () => {
    const asked = new Set<string>();
    say = async (name, said, request) => {
      if (hasResult(request)) return text(`${name} is done`);
      if (said.includes('Help')) return text(`${name} helps`);
      asked.add(name);
      await waitUntil('both are at work', () => Promise.resolve(asked.size === 2));
      return name === 'ada' ? delegate('bea', 'Help ada.') : delegate('ada', 'Help bea.');
    };
    const [one, other] = [await workflow('ada'), await workflow('bea')];
    assert.deepEqual(
      [await result(one), await result(other)],
      [
        ['completed', 'ada is done'],
        ['completed', 'bea is done'],
      ],
    );
  });

  it('is done though it comes back to the agent whose work waits for it', async () => {
    say = (name, said, request) => {
      if (hasResult(request)) return text(`${name} is done`);
      if (said.includes('Help')) return text('helped');
      return name === 'ada' ? delegate('bea', 'Ask her.') : delegate('ada', 'Help bea.');
    };
    assert.deepEqual(await result(await workflow('ada')), ['completed', 'ada is done']);
  });

  it('waits for what the agent has delegated where nobody has delegated the task itself, and says so', async () => {
    let goOn = () => {};
    const held = new Promise<void>((resolve) => (goOn = resolve));
    say = async (name, _said, request) => {
      if (name === 'bea') await held;
      return name === 'ada' && !hasResult(request) ? delegate('bea', 'Take your time.') : text('done');
    };
    const id = await workflow('ada', 'ada');
    const reasons = async () => (await pending()).map(({ pending_reason: why }) => why);
    await waitUntil('bea is at work', async () => (await read('/v1/tasks?status=in_progress')).tasks.length === 2);
    assert.deepEqual(await reasons(), ['The agent ada has as many tasks as it takes at a time (1 of 1).']);
    const shown = (await read(`/v1/workflows/${id}`)).tasks.map(
      ({ pending_reason: why }: { pending_reason?: string }) => why,
    );
    assert.deepEqual(shown, [undefined, ...(await reasons())]);
    const [{ id: task }] = (await read('/v1/tasks?status=pending')).tasks;
    assert.deepEqual([(await read(`/v1/tasks/${task}`)).pending_reason], await reasons());
    goOn();
    assert.equal((await result(id))[0], 'completed');
    assert.equal((await read(`/v1/tasks/${task}`)).pending_reason, undefined);
  });

  it('says who has the agent where it is delegated by name to one that is at work', async () => {
    let goOn = () => {};
    const held = new Promise<void>((resolve) => (goOn = resolve));
    say = async (name, _said, request) => {
      if (name === 'bea') await held;
      return name === 'ada' && !hasResult(request) ? delegate('bea', 'Help ada.') : text('done');
    };
    const before = await workflow('bea');
    await waitUntil('bea is at work', async () => (await read('/v1/tasks?status=in_progress')).tasks.length === 1);
    const id = await workflow('ada');
    assert.equal(await whyPending('Help ada.'), 'The agent bea has as many tasks as it takes at a time (1 of 1).');
    goOn();
    assert.deepEqual([(await result(before))[0], (await result(id))[0]], ['completed', 'completed']);
  });

  it('waits for the agent to be no longer suspended, also where it is delegated, and says so', async () => {
    say = (name, _said, request) =>
      name === 'ada' && !hasResult(request) ? delegate('cal', 'Help ada.') : text(`${name} is done`);
    await suspend('cal', true);
    const named = await workflow('cal');
    assert.equal(await whyPending('Begin 0.'), 'The agent cal is suspended.');
    const delegated = await workflow('ada');
    assert.equal(await whyPending('Help ada.'), 'The agent cal is suspended.');
    await suspend('cal', false);
    assert.deepEqual(await result(named), ['completed', 'cal is done']);
    assert.deepEqual(await result(delegated), ['completed', 'ada is done']);
  });

  it('waits where the only agent with the capability is suspended, also where it is delegated', async () => {
    await agent('dan', { capabilities: [{ skill_name: 'juggling' }] });
    say = (name, _said, request) =>
      name === 'ada' && !hasResult(request)
        ? use('delegate', { capability: 'juggling', description: 'Juggle.' })
        : text(`${name} is done`);
    await suspend('dan', true);
    const id = await workflow('ada');
    assert.equal(await whyPending('Juggle.'), undefined, 'another agent may come to have the capability');
    await suspend('dan', false);
    assert.deepEqual(await result(id), ['completed', 'ada is done']);
    assert.equal((await read('/v1/tasks?status=completed')).tasks.length, 2);
  });
});
