import assert from 'node:assert/strict';
import type { TestApi } from '../support/api.ts';
import { startTestService } from '../support/service.ts';
import { startFakeAnthropic, type AnthropicRequest } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { forgetVotes } from '../support/queries/workflows.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('teams', () => {
  let api: TestApi;
  let model: FakeServer;
  let key: string;
  const agents: Record<string, string> = {};
  /** Lets the model go on that thinks about the word THINK. */
  let thinking: (() => void) | undefined;

  const make = async (path: string, body: unknown, expected = 201) => {
    const { status, json, text } = await api.call('POST', path, { key, body });
    assert.equal(status, expected, text);
    return json;
  };
  const read = async (path: string) => (await api.call('GET', path, { key })).json;

  before(async () => {
    model = await startFakeAnthropic(async (request: AnthropicRequest) => {
      const asked = JSON.stringify(request.messages);
      if (/PONDER/.test(asked)) return { content: [], hang: true };
      if (/THINK/.test(asked) && !thinking) await new Promise<void>((resolve) => (thinking = resolve));
      const answer = /merge|Make one answer/.test(asked)
        ? 'merged'
        : (/role (\w+)/.exec(JSON.stringify(request.system))?.[1] ?? '?');
      return { content: [{ type: 'text', text: answer }] };
    });
    api = await startTestService({ model });
    ({ key } = await api.newTenant());
    const known = [
      ['lead', [{ skill_name: 'leading', domain: 'general', proficiency: 0.9 }], 2000],
      ['north', [{ skill_name: 'law', domain: 'tax', proficiency: 0.9 }], 1000],
      ['south', [{ skill_name: 'law', domain: 'labour', proficiency: 0.6 }], 500],
    ] as const;
    for (const [name, capabilities, tokens] of known) {
      const health = { success_rate_7d: 1, avg_latency_ms: 0, avg_tokens_per_task: tokens };
      const body = {
        name,
        system_prompt: `You play the role ${name === 'south' ? 'north' : name}.`,
        capabilities,
        health,
      };
      ({ id: agents[name] = '' } = await make('/v1/agents', body));
    }
  });
  after(() => api.close());

  it('finds agents by what they can do, best first', async () => {
    const names = async (query: string) => {
      const { agents: found, total } = await read(`/v1/agents/discover?${query}`);
      return [total, ...found.map(({ name }: { name: string }) => name)];
    };
    assert.deepEqual(await names('capabilities=law'), [2, 'north', 'south']);
    assert.deepEqual(await names('capabilities=law&limit=1'), [2, 'north']);
    assert.deepEqual(await names('capabilities=law&min_proficiency=0.8'), [1, 'north']);
    assert.deepEqual(await names('capabilities=law&domain=labour'), [1, 'south']);
    assert.deepEqual(await names('capabilities=law,leading'), [0]);
    assert.deepEqual(await names('status=offline'), [0]);
    const { agents: found } = await read('/v1/agents/discover?capabilities=law');
    // 0.5 × 0.9 + 0.25 + 0.15 + 0.1
    assert.equal(found[0].match_score, 0.95);
    assert.equal(found[0].health.avg_tokens_per_task, 1000);
  });

  it('are composed for the roles of a task within its budget', async () => {
    // Before any of them has done something: then it costs what such work has cost.
    const role = (name: string, skill: string) => ({ name, requirements: { required_capabilities: [skill] } });
    const task = { required_roles: [role('lawyer', 'law'), role('supervisor', 'leading')], budget: 5000 };
    const { team } = await make('/v1/teams/compose', { task }, 200);
    assert.deepEqual(team, [
      { role: 'supervisor', agent_id: agents['lead'], expected_cost: 2000 },
      { role: 'lawyer', agent_id: agents['north'], expected_cost: 1000 },
    ]);
    const missing = await make('/v1/teams/compose', { task: { required_roles: [role('wizard', 'magic')] } }, 422);
    assert.deepEqual([missing.code, missing.role], ['InsufficientAgents', 'wizard']);
    const capped = { name: 'lawyer', requirements: { required_capabilities: ['law'], max_cost: 4000 } };
    const one = await make('/v1/teams/compose', { task: { required_roles: [capped] } }, 200);
    assert.equal(one.team[0].role, 'lawyer');
  });

  it('are made, changed and deleted, of agents that there are', async () => {
    const member = (name: string, priority = 0) => ({ agent_id: agents[name], role: 'worker', priority });
    const team = await make('/v1/teams', {
      name: 'one',
      orchestration_pattern: 'sequential',
      members: [member('north', 2), member('south', 1)],
    });
    assert.deepEqual(
      team.members.map(({ agent_id }: { agent_id: string }) => agent_id),
      [agents['south'], agents['north']],
    );
    const changed = await api.call('PATCH', `/v1/teams/${team.id}`, {
      key,
      body: { supervisor_agent_id: agents['lead'] },
    });
    assert.deepEqual(
      [changed.status, changed.json.supervisor_agent_id, changed.json.name],
      [200, agents['lead'], 'one'],
    );
    assert.equal((await read('/v1/teams')).teams.length, 1);
    const unknown = { name: 'x', members: [{ agent_id: team.id }] };
    assert.equal((await make('/v1/teams', unknown, 422)).errors[0].path, 'body.members.0.agent_id');
    assert.equal(
      (await make('/v1/teams', { name: 'x', members: [member('north'), member('north')] }, 422)).errors[0].message,
      'is there twice',
    );
    assert.equal((await api.call('DELETE', `/v1/teams/${team.id}`, { key })).status, 204);
    assert.equal((await api.call('GET', `/v1/teams/${team.id}`, { key })).status, 404);
  });

  it('keep each of the changes that are made at the same time', async () => {
    const { id } = await make('/v1/teams', { name: 'many', members: [{ agent_id: agents['north'] }] });
    const patch = (body: Record<string, unknown>) => api.call('PATCH', `/v1/teams/${id}`, { key, body });
    for (let round = 1; round <= 5; round++) {
      const members = [{ agent_id: agents[round % 2 ? 'south' : 'lead'], role: 'worker', priority: 0 }];
      const [name, config] = [`round ${round}`, { round }];
      const changed = await Promise.all([{ name }, { config }, { members }].map(patch));
      assert.deepEqual(
        changed.map(({ status }) => status),
        [200, 200, 200],
      );
      const team = await read(`/v1/teams/${id}`);
      assert.deepEqual([team.name, team.config, team.members], [name, config, members]);
    }
    assert.equal((await api.call('DELETE', `/v1/teams/${id}`, { key })).status, 204);
  });

  it('name in their faults what was sent, where a member was deprecated since', async () => {
    const { id: lost } = await make('/v1/agents', { name: 'lost' });
    const members = [{ agent_id: agents['north'] }, { agent_id: lost }];
    const { id } = await make('/v1/teams', { name: 'halved', orchestration_pattern: 'parallel', members });
    assert.equal((await api.call('DELETE', `/v1/agents/${lost}`, { key })).status, 204);
    const patch = (body: Record<string, unknown>) => api.call('PATCH', `/v1/teams/${id}`, { key, body });
    const renamed = await patch({ name: 'renamed' });
    assert.deepEqual([renamed.status, renamed.json.name, renamed.json.members.length], [200, 'renamed', 2]);
    const again = await patch({ members });
    assert.deepEqual([again.status, again.json.errors[0].path], [422, 'body.members.1.agent_id']);
    const asked = { name: 'x', team_id: id, input: { user_query: 'Why?' } };
    const path = 'body.team_id';
    const message = `names a team with an agent that was deprecated: ${lost}`;
    assert.deepEqual((await make('/v1/workflows', asked, 422)).errors, [{ path, message }]);
    const objective = { schema_version: 'v1', request_id: 'halved', team_id: id, objective_prompt: 'Why?' };
    assert.deepEqual((await make('/v1/objectives', objective, 422)).errors, [{ path, message }]);
    assert.equal((await patch({ members: [{ agent_id: agents['north'] }] })).status, 200);
    await make('/v1/workflows', asked, 202);
    assert.equal((await api.call('DELETE', `/v1/teams/${id}`, { key })).status, 204);
  });

  it('work in their way: all at once and merged, by vote, or one after the other', async () => {
    const work = async (team: Record<string, unknown>) => {
      const members = ['north', 'south', 'lead'].map((name, priority) => ({
        agent_id: agents[name],
        role: name,
        priority,
      }));
      const { id } = await make('/v1/teams', { name: 'team', members, ...team });
      const flow = await make('/v1/workflows', { name: 'x', team_id: id, input: { user_query: 'Why?' } }, 202);
      await waitUntil('the workflow ends', async () => (await read(`/v1/workflows/${flow.id}`)).status === 'completed');
      return read(`/v1/workflows/${flow.id}`);
    };
    const names = (flow: { tasks: { subtask_id: string }[] }) => flow.tasks.map(({ subtask_id }) => subtask_id);
    const merged = await work({ orchestration_pattern: 'parallel', supervisor_agent_id: agents['lead'] });
    assert.deepEqual(
      [names(merged), merged.result, merged.agent_id],
      [['1-north', '2-south', 'merge'], 'merged', agents['lead']],
    );
    const voted = await work({ orchestration_pattern: 'parallel' });
    assert.deepEqual([names(voted).length, voted.result], [3, 'north']);
    const row = await work({ orchestration_pattern: 'sequential' });
    assert.deepEqual(
      row.tasks.map(({ dependencies }: { dependencies: string[] }) => dependencies.length),
      [0, 1, 1],
    );
    assert.equal(row.result, 'lead');
    assert.equal(
      (await work({ orchestration_pattern: 'hierarchical', supervisor_agent_id: agents['lead'] })).result,
      'lead',
    );
  });

  for (const isOlder of [false, true]) {
    const built = isOlder ? ' (as an older process has begun it)' : '';
    const begin = async (pattern: { orchestration_pattern: string }, flow: Record<string, unknown>) => {
      thinking = undefined;
      const members = ['north', 'lead', 'south'].map((role, priority) => ({ agent_id: agents[role], role, priority }));
      const { id: team_id } = await make('/v1/teams', { name: 'voters', members, ...pattern });
      const { id } = await make('/v1/workflows', { name: 'x', team_id, ...flow }, 202);
      const all = async () => (await read(`/v1/workflows/${id}`)).tasks as { run_id: string | null }[];
      await waitUntil('all are at work', async () => (await all()).every(({ run_id }) => run_id !== null));
      await waitUntil('somebody thinks', () => Promise.resolve(thinking !== undefined));
      if (isOlder) await forgetVotes(api, id);
      return { id, team_id };
    };
    const end = async (id: string) => {
      thinking?.();
      await waitUntil('the workflow ends', async () => (await read(`/v1/workflows/${id}`)).status === 'completed');
      return (await read(`/v1/workflows/${id}`)).result;
    };

    it(`answer with all results of what a request has split, and put nothing to the vote${built}`, async () => {
      const definition = {
        subtasks: [
          { id: 'competitors', description: 'THINK of competitors.', dependencies: [], agent: 'north' },
          { id: 'prices', description: 'Find prices.', dependencies: [], agent: 'south' },
          { id: 'risks', description: 'Find risks.', dependencies: [], agent: 'lead' },
        ],
      };
      const flow = { input: { user_query: 'Why?' }, definition };
      const { id } = await begin({ orchestration_pattern: 'parallel' }, flow);
      assert.equal(await end(id), 'competitors:\nnorth\n\nprices:\nnorth\n\nrisks:\nlead');
    });

    it(`answer by vote also if the team is deleted before its members have answered${built}`, async () => {
      const flow = { input: { user_query: 'THINK' } };
      const { id, team_id } = await begin({ orchestration_pattern: 'parallel' }, flow);
      assert.equal((await api.call('DELETE', `/v1/teams/${team_id}`, { key })).status, 204);
      assert.equal(await end(id), 'north');
    });
  }

  it('have the budget of their objective, and what it has stopped says so', async () => {
    const members = [{ agent_id: agents['north'] }];
    const { id } = await make('/v1/teams', { name: 'poor', orchestration_pattern: 'sequential', members });
    const asked = { schema_version: 'v1', request_id: 'poor', team_id: id, objective_prompt: 'Why?' };
    const { run_id } = await make('/v1/objectives', { ...asked, budget: { max_tokens: 1 } }, 202);
    await waitUntil('it fails', async () => (await read(`/v1/runs/${run_id}`)).status === 'failed');
    const message =
      /^The subtask 1-worker has failed \(budget\): The budget of the workflow does not suffice\. .* it needs about [\d,]+ tokens, and 1 of 1 is left\.$/;
    assert.match((await read(`/v1/runs/${run_id}`)).error.message, message);
    assert.equal((await api.call('DELETE', `/v1/teams/${id}`, { key })).status, 204);
  });

  it('do not try a workflow again for which a member is wanted that was deprecated since, and say so at once', async () => {
    const { id: lost } = await make('/v1/agents', { name: 'leaving' });
    const members = [{ agent_id: agents['north'] }, { agent_id: lost }];
    const { id } = await make('/v1/teams', { name: 'leaving', orchestration_pattern: 'parallel', members });
    const { id: flow } = await make('/v1/workflows', { name: 'x', team_id: id, input: { user_query: 'PONDER' } }, 202);
    await make(`/v1/runs/${flow}/cancel`, {}, 202);
    assert.equal((await api.call('DELETE', `/v1/agents/${lost}`, { key })).status, 204);
    for (const [path, body] of [
      ['retry', {}],
      ['replay', { checkpoint_id: 'start' }],
    ] as const) {
      const refused = await make(`/v1/runs/${flow}/${path}`, body, 409);
      assert.deepEqual([refused.code, refused.agent_id], ['conflict', lost]);
      assert.match(refused.detail, /is for the agent leaving, which is deprecated/);
    }
    assert.equal((await api.call('DELETE', `/v1/teams/${id}`, { key })).status, 204);
  });

  it('that are gone have no members: what is left of their work goes to nobody else', async () => {
    thinking = undefined;
    const members = [{ agent_id: agents['north'], role: 'north', priority: 1 }];
    const { id: team_id } = await make('/v1/teams', { name: 'gone', orchestration_pattern: 'parallel', members });
    // Nobody of the team can lead, as `lead` of the workspace could.
    const later = { id: 'b', description: 'Lead.', dependencies: ['a'], required_capabilities: ['leading'] };
    const subtasks = [{ id: 'a', description: 'THINK', dependencies: [], agent: 'north' }, later];
    const request = { name: 'x', team_id, input: { user_query: 'Why?' }, definition: { subtasks } };
    const { id } = await make('/v1/workflows', request, 202);
    await waitUntil('somebody thinks', () => Promise.resolve(thinking !== undefined));
    assert.equal((await api.call('DELETE', `/v1/teams/${team_id}`, { key })).status, 204);
    (thinking as (() => void) | undefined)?.();
    const ends = ['completed', 'failed'];
    await waitUntil('the workflow ends', async () => ends.includes((await read(`/v1/workflows/${id}`)).status));
    const { tasks } = await read(`/v1/workflows/${id}`);
    assert.deepEqual([tasks[0].status, tasks[1].error?.code], ['completed', 'InsufficientAgents']);
  });

  it('that are gone leave undone also what was for members by name', async () => {
    thinking = undefined;
    const members = ['north', 'lead'].map((role, priority) => ({ agent_id: agents[role], role, priority }));
    const { id: team_id } = await make('/v1/teams', { name: 'row', orchestration_pattern: 'sequential', members });
    const { id } = await make('/v1/workflows', { name: 'x', team_id, input: { user_query: 'THINK' } }, 202);
    await waitUntil('somebody thinks', () => Promise.resolve(thinking !== undefined));
    assert.equal((await api.call('DELETE', `/v1/teams/${team_id}`, { key })).status, 204);
    (thinking as (() => void) | undefined)?.();
    const ends = ['completed', 'failed'];
    await waitUntil('the workflow ends', async () => ends.includes((await read(`/v1/workflows/${id}`)).status));
    const { tasks } = await read(`/v1/workflows/${id}`);
    assert.deepEqual([tasks[0].status, tasks[1].error?.code], ['completed', 'InsufficientAgents']);
    assert.equal(tasks[1].error.message, 'The team is deleted, and has no members.');
  });

  const orphaned = async (flow: Record<string, unknown>, pattern: Record<string, unknown> = {}) => {
    thinking = undefined;
    const members = ['north', 'lead'].map((role, priority) => ({ agent_id: agents[role], role, priority }));
    const team = { name: 'left', orchestration_pattern: 'sequential', members, ...pattern };
    const { id: team_id } = await make('/v1/teams', team);
    const { id } = await make('/v1/workflows', { name: 'x', team_id, input: { user_query: 'THINK' }, ...flow }, 202);
    await waitUntil('somebody thinks', () => Promise.resolve(thinking !== undefined));
    const body = { members: members.slice(0, 1) };
    assert.equal((await api.call('PATCH', `/v1/teams/${team_id}`, { key, body })).status, 200);
    (thinking as (() => void) | undefined)?.();
    const ends = ['completed', 'failed'];
    await waitUntil('the workflow ends', async () => ends.includes((await read(`/v1/workflows/${id}`)).status));
    return (await read(`/v1/workflows/${id}`)).tasks;
  };

  it('give nothing of their work to a member that has left since, though a subtask names it', async () => {
    const tasks = await orphaned({});
    assert.deepEqual([tasks[1].status, tasks[1].assignment.assigned_agent_id], ['completed', agents['north']]);
    const later = { id: 'b', description: 'Lead.', dependencies: ['a'], agent: 'lead' };
    const subtasks = [
      { id: 'a', description: 'THINK', dependencies: [] },
      { ...later, required_capabilities: ['leading'] },
    ];
    const [, left] = await orphaned({ definition: { subtasks } });
    assert.equal(left.error?.code, 'InsufficientAgents');
    assert.equal(
      left.error.message,
      'The agent lead is not in the team. No other active agent has what the task requires.',
    );
    const [, led] = await orphaned({ definition: { subtasks } }, { supervisor_agent_id: agents['lead'] });
    assert.deepEqual(
      [led.status, led.assignment.assigned_agent_id],
      ['completed', agents['lead']],
      'the supervisor is of the team',
    );
  });

  it('refuse a definition with a subtask for an agent that is not in the team', async () => {
    const members = [{ agent_id: agents['north'] }];
    const team = { name: 'few', orchestration_pattern: 'parallel', members, supervisor_agent_id: agents['lead'] };
    const { id: team_id } = await make('/v1/teams', team);
    const ask = (agent: string, expected: number) => {
      const subtasks = [{ id: 'a', description: 'Go.', dependencies: [], agent }];
      return make(
        '/v1/workflows',
        { name: 'x', team_id, input: { user_query: 'Why?' }, definition: { subtasks } },
        expected,
      );
    };
    for (const agent of ['south', agents['south'] ?? '']) {
      const { errors } = await ask(agent, 422);
      assert.deepEqual(
        errors.map(({ path }: { path: string }) => path),
        ['body.definition.subtasks.0.agent'],
      );
    }
    for (const agent of ['north', 'lead']) await ask(agent, 202);
  });
});
