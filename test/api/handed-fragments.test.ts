import assert from 'node:assert/strict';
import type { TestApi } from '../support/api.ts';
import { agentsOf, startAgentsThatSay, text, type Say } from '../support/agents-that-say.ts';
import { waitUntil } from '../support/wait-until.ts';

const SECRET = 'The vault code is PURPLE-ELEPHANT.';

describe('fragments that a handoff names', () => {
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
    await agent('insider', { capabilities: [{ skill_name: 'in' }] });
    for (const name of ['member', 'boss', 'outsider', 'guest', 'denied']) await agent(name);
    say = (name, said) =>
      name === 'insider' ? undefined : text(said.includes('PURPLE-ELEPHANT') ? 'I know it' : 'I know nothing');
  });

  /** A team's space with a fragment of the insider's. */
  async function shared(access: { allowed_agents?: string[]; denied_agents?: string[] } = {}): Promise<string> {
    const members = ['insider', 'member', 'denied'].map((name) => ({ agent_id: ids[name], role: name }));
    const { id: team } = await make('/v1/teams', {
      name: 'vault',
      orchestration_pattern: 'parallel',
      supervisor_agent_id: ids['boss'],
      members,
    });
    const { id: space } = await make('/v1/memory/spaces', { name: 'vault', team_id: team, ...access });
    const { id } = await make('/v1/memory/write', { space_id: space, agent_id: ids['insider'], content: SECRET });
    return id;
  }

  /** A task that the insider works on. */
  async function task(): Promise<string> {
    const requirements = { required_capabilities: ['in'] };
    const { id } = await make('/v1/tasks', { description: 'Open it.', requirements }, 202);
    await waitUntil('it is under way', async () => (await read(`/v1/tasks/${id}`)).status === 'in_progress');
    return id;
  }

  const wish = (taskId: string, target: string, fragment: string) => ({
    task_id: taskId,
    source_agent_id: ids['insider'],
    target_agent_id: ids[target],
    context: { memory_references: { shared_fragments: [fragment] } },
    reason: 'Knows vaults',
  });

  /** What a target answers that is handed the fragment; with the summary of the handoff. */
  async function handedTo(target: string, fragment: string): Promise<{ answer: string; given: unknown }> {
    const id = await task();
    const { summary } = await make('/v1/handoffs', wish(id, target, fragment));
    await waitUntil('the target is done', async () => (await read(`/v1/tasks/${id}`)).status === 'completed');
    return { answer: (await read(`/v1/tasks/${id}`)).output.result, given: summary.memory_fragments };
  }

  it('are given to the members of the team whose space has them, its supervisor and the agents let in, and to nobody else', async () => {
    const fragment = await shared({ allowed_agents: [ids['guest'] ?? ''], denied_agents: [ids['denied'] ?? ''] });
    const known = { answer: 'I know it', given: [{ id: fragment, content: SECRET }] };
    const unknown = { answer: 'I know nothing', given: undefined };
    for (const name of ['member', 'boss', 'guest']) assert.deepEqual(await handedTo(name, fragment), known, name);
    for (const name of ['outsider', 'denied']) assert.deepEqual(await handedTo(name, fragment), unknown, name);
  });

  it("are not given to an agent outside the team where the team's space names no agents", async () => {
    const fragment = await shared();
    assert.deepEqual(await handedTo('outsider', fragment), { answer: 'I know nothing', given: undefined });
    assert.deepEqual((await handedTo('member', fragment)).answer, 'I know it');
  });

  it('are given to any agent where the space is of no team and names no agents', async () => {
    const { id: space } = await make('/v1/memory/spaces', { name: 'open' });
    const { id } = await make('/v1/memory/write', { space_id: space, content: SECRET });
    assert.equal((await handedTo('outsider', id)).answer, 'I know it');
  });

  it('are named only with a key that may read memory', async () => {
    const fragment = await shared();
    const id = await task();
    const keyWith = async (...scopes: string[]) => (await make('/v1/api-keys', { name: 'k', scopes })).key;
    const body = wish(id, 'member', fragment);
    const refused = await api.call('POST', '/v1/handoffs', { key: await keyWith('runs:write', 'runs:read'), body });
    const why = 'The key does not have the scope "memory:read", which naming shared fragments needs.';
    assert.deepEqual([refused.status, refused.json.detail], [403, why]);
    assert.equal((await read(`/v1/tasks/${id}`)).status, 'in_progress');
    const reader = await keyWith('runs:write', 'runs:read', 'memory:read');
    const made = await api.call('POST', '/v1/handoffs', { key: reader, body });
    assert.deepEqual(made.json.summary.memory_fragments, [{ id: fragment, content: SECRET }]);
  });
});
