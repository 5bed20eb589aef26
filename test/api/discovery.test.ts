import assert from 'node:assert/strict';
import { listWorkers, listWorkerSkills } from '../../db/workers.ts';
import type { TestApi } from '../support/api.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { makeManyAgents, planOfDiscovery, planOfSimilarSkills } from '../support/queries/agents.ts';
import { countRowsRead } from '../support/queries/postgres.ts';
import { waitUntil } from '../support/wait-until.ts';
import { startTestService } from '../support/service.ts';
import { sized } from '../support/size.ts';

/** In one process with the database, so many rows would keep the rest of it waiting for too long. */
const COUNT = DOMAIN_MODE === 'embedded' ? 1000 : 10_000;
const SKILLS = sized({ usual: 1000, nightly: 3000 });

describe('looking for agents', () => {
  let api: TestApi;
  let key: string;
  let tenant: { id: string; key: string; workspace_id: string };

  const make = async (path: string, body: unknown, expected = 201) => {
    const { status, json, text } = await api.call('POST', path, { key, body });
    assert.equal(status, expected, text);
    return json;
  };
  const read = async (path: string) => (await api.call('GET', path, { key })).json;
  const names = async (query: string) =>
    (await read(`/v1/agents/discover?${query}`)).agents.map(({ name }: { name: string }) => name);
  const skilled = (name: string, skill_name: string, proficiency = 0.8) =>
    make('/v1/agents', { name, capabilities: [{ skill_name, proficiency, domain: 'general' }] });

  before(async () => {
    api = await startTestService({ env: { DROVER_EMBEDDING_MODEL: 'offline' } });
  });
  after(() => api.close());
  beforeEach(async () => {
    tenant = await api.newTenant();
    ({ key } = tenant);
  });

  it('finds a skill under another name that means much the same, after one of the very name', async () => {
    await skilled('other', 'internet_research', 0.9);
    await skilled('none', 'image_generation');
    // The model is loaded with the first question, which need not wait for it.
    await waitUntil('it is found', async () => (await names('capabilities=web_research')).length === 1);
    assert.deepEqual(await names('capabilities=web_research&min_proficiency=0.95'), []);
    assert.deepEqual(await names('capabilities=web_research,image_generation'), []);
    await skilled('exact', 'web_research', 1);
    assert.deepEqual(await names('capabilities=web_research'), ['exact', 'other']);
    const stranger = await api.newTenant();
    const { json } = await api.call('GET', '/v1/agents/discover?capabilities=web_research', { key: stranger.key });
    assert.deepEqual(json, { agents: [], total: 0 });
  });

  it('ranks agents by the skills that count alone: good enough, and in the domain', async () => {
    const agent = (name: string, ...skills: [skill_name: string, proficiency: number, domain: string][]) => {
      const capabilities = skills.map(([skill_name, proficiency, domain]) => ({ skill_name, proficiency, domain }));
      return make('/v1/agents', { name, capabilities });
    };
    await agent('both', ['web_research', 0.2, 'd'], ['internet_research', 0.9, 'd']);
    await agent('elsewhere', ['web_research', 0.95, 'zz'], ['internet_research', 0.6, 'd']);
    await agent('none');
    const found = async (query: string): Promise<[string, number][]> => {
      const { agents } = await read(`/v1/agents/discover?${query}`);
      return agents.map((each: { name: string; match_parts: { capability: number } }) => [
        each.name,
        each.match_parts.capability,
      ]);
    };
    const inDomain = 'capabilities=web_research&domain=d';
    // The model is loaded with the first question, which need not wait for it.
    await waitUntil('both are found', async () => (await found(inDomain)).length === 2);
    assert.deepEqual(await found(inDomain), [
      ['both', 0.9],
      ['elsewhere', 0.6],
    ]);
    assert.deepEqual(await found(`${inDomain}&min_proficiency=0.9`), [['both', 0.9]]);
    assert.deepEqual(await names('min_proficiency=0.95'), ['elsewhere']);
    assert.equal((await names('')).length, 3);
  });

  it('gives a task to whoever does something like it, where nobody does just that', async () => {
    const { id } = await skilled('fiscal', 'fiscal law');
    const requirements = { required_capabilities: ['tax law'] };
    const { id: task } = await make('/v1/tasks', { description: 'What is 1+1?', requirements }, 202);
    await waitUntil('it is done', async () => (await read(`/v1/tasks/${task}`)).status === 'completed');
    const { assignment } = await read(`/v1/tasks/${task}`);
    assert.equal(assignment.assigned_agent_id, id);
    assert.match(assignment.assignment_reason, /^matched, score 0\.9, fiscal law for tax law, similarity 0\.\d+$/);
    const [found] = (await read('/v1/agents/discover?capabilities=tax%20law')).agents;
    const [{ similarity, ...substitute }] = found.substitutes;
    assert.deepEqual([found.substitutes.length, substitute], [1, { required: 'tax law', skill: 'fiscal law' }]);
    assert.ok(similarity > 0.7 && similarity < 1);
  });

  it('takes no code, version or year for another', async () => {
    for (const skill of ['s73832b', 'sha256', 'cve_2024', 'l1_support', 'fiscal_law'])
      await skilled(skill, skill, 0.95);
    // The model is loaded with the first question, which need not wait for it.
    await waitUntil('a similar one is found', async () => (await names('capabilities=tax_law')).length === 1);
    for (const skill of ['q7777777', 'sku4711', 'cve_2025', 'l3_support']) {
      assert.deepEqual(await names(`capabilities=${skill}`), [], skill);
    }
    assert.deepEqual(await names('capabilities=cve_2024'), ['cve_2024']);
    const requirements = { required_capabilities: ['q7777777'] };
    const { id: task } = await make('/v1/tasks', { description: 'What is 1+1?', requirements }, 202);
    await waitUntil('it ends', async () => ['completed', 'failed'].includes((await read(`/v1/tasks/${task}`)).status));
    assert.equal((await read(`/v1/tasks/${task}`)).status, 'failed');
  });

  it('gives what is delegated, and a role of a team, to whoever does something like it', async () => {
    const { id } = await skilled('fiscal', 'fiscal law');
    const task = { required_roles: [{ name: 'lawyer', requirements: { required_capabilities: ['tax law'] } }] };
    const compose = () => api.call('POST', '/v1/teams/compose', { key, body: { task } });
    // The model is loaded with the first question, which need not wait for it.
    await waitUntil('a team is found', async () => (await compose()).status === 200);
    const [lawyer] = (await compose()).json.team;
    assert.deepEqual([lawyer.agent_id, lawyer.substitutes[0].skill], [id, 'fiscal law']);
    const input = { capability: 'taxation law', description: 'What is 1+1?' };
    const examples = [{ question: 'Have it done.', steps: [{ tool: 'delegate', input }], answer: 'It is done.' }];
    const lead = await make('/v1/agents', { name: 'lead', tools: ['delegate'], system_prompt: { examples } });
    const run = await make(`/v1/agents/${lead.id}/runs`, { input: { message: 'Have it done.' } }, 202);
    await waitUntil('it is done', async () => (await read(`/v1/runs/${run.run_id}`)).status === 'completed');
    const [delegated] = (await read('/v1/tasks')).tasks;
    assert.deepEqual([delegated.status, delegated.assignment?.assigned_agent_id], ['completed', id]);
    assert.match(delegated.assignment.assignment_reason, /fiscal law for taxation law, similarity 0\./);
  });

  it('shows what the runs of seven days have come to, and what was registered before there are any', async () => {
    const { id } = await make('/v1/agents', { name: 'h', health: { success_rate_7d: 0.5, avg_latency_ms: 9000 } });
    const health = async () => (await read('/v1/agents/discover')).agents[0].health;
    assert.deepEqual(await health(), { success_rate_7d: 0.5, avg_latency_ms: 9000 });
    const { match_score, match_parts } = (await read('/v1/agents/discover')).agents[0];
    assert.deepEqual(match_parts, { capability: 1, health: 0.3, cost: 1, availability: 1, preference: 0 });
    assert.equal(match_score, 0.5 + 0.25 * 0.3 + 0.15 + 0.1);
    const { run_id } = await make(`/v1/agents/${id}/runs`, { input: { message: 'What is 1+1?' } }, 202);
    await waitUntil('it ends', async () => (await read(`/v1/runs/${run_id}`)).status === 'completed');
    const { success_rate_7d, avg_latency_ms, avg_tokens_per_task, last_active } = await health();
    assert.equal(success_rate_7d, 1);
    assert.ok(avg_latency_ms < 9000 && avg_tokens_per_task > 0 && Date.parse(last_active) > 0);
  });

  it('ranks agents without skills by what is known of them, those with nothing known among the others', async () => {
    const health = { success_rate_7d: 1, avg_latency_ms: 0 };
    for (const name of ['first', 'second']) await make('/v1/agents', { name });
    await make('/v1/agents', { name: 'worst', health: { success_rate_7d: 0 } });
    await make('/v1/agents', { name: 'perfect', health });
    await make('/v1/agents', { name: 'worse', health: { success_rate_7d: 0.5 } });
    await make('/v1/agents', { name: 'last' });
    await make('/v1/agents', { name: 'sleeping', is_active: false });
    assert.deepEqual(await names('limit=200'), ['first', 'second', 'perfect', 'last', 'worse', 'worst']);
    for (const limit of [1, 3, 5]) {
      const { agents, total } = await read(`/v1/agents/discover?limit=${limit}`);
      const found = agents.map(({ name }: { name: string }) => name);
      assert.deepEqual([found, total], [(await names('limit=200')).slice(0, limit), 6]);
    }
  });

  it('reads of ten thousand agents the definitions of those that it shows, and of none to tell a planner of their skills', async () => {
    const { id } = await skilled('like', 'rare', 1);
    await makeManyAgents(api.context.db, { ...tenant, like: id, count: COUNT });
    const workspace = { workspaceId: tenant.workspace_id };
    const { db } = api.context;
    const { counts, found } = await countRowsRead(db, tenant.id, (tx) =>
      listWorkers(tx, { ...workspace, skills: [], unknown: 10 }),
    );
    assert.equal(found.length, 10);
    assert.ok((counts.get('agent_versions') ?? 0) <= 30, JSON.stringify([...counts]));
    const skills = await countRowsRead(db, tenant.id, (tx) => listWorkerSkills(tx, { ...workspace, limit: 500 }));
    assert.equal(skills.counts.get('agent_versions') ?? 0, 0, JSON.stringify([...skills.counts]));
    assert.deepEqual([skills.found.length, skills.found[0], skills.found.at(-1)], [101, 'rare', 'skill_99']);
  });

  it('counts and ranks ten thousand agents by an index of what they can do', async () => {
    const { id } = await skilled('best', 'rare', 1);
    await makeManyAgents(api.context.db, { ...tenant, like: id, count: COUNT });
    const { agents, total } = await read('/v1/agents/discover?capabilities=skill_7&limit=3');
    // Every hundredth has it.
    assert.deepEqual([agents.length, total], [3, COUNT / 100]);
    assert.deepEqual(await names('capabilities=rare'), ['best']);
    if (DOMAIN_MODE === 'embedded') return;
    const plan = await planOfDiscovery(api.context.db, tenant);
    assert.match(plan, /agent_skills_pkey/);
    assert.doesNotMatch(plan, /Seq Scan on (agents|agent_versions|agent_skills)/);
    assert.match(await planOfSimilarSkills(api.context.db, { id: tenant.id, count: SKILLS }), /skills_near/);
  });
});
