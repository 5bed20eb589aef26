import assert from 'node:assert/strict';
import type { Tx } from '../../db/database.ts';
import { countWaiting, listFailedTurns, readOwnUsage, readQueueStates, readUsage } from '../../db/dashboard.ts';
import { beginOwnCall, settleOwnCall } from '../../db/own-model-calls.ts';
import { newId } from '../../lib/new-id.ts';
import { migrate } from '../../db/migrate.ts';
import { indexErrors } from '../../modules/dashboard/index-errors.ts';
import { rollUpRuns } from '../../modules/dashboard/roll-up-usage.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { startFakeAnthropic, type AnthropicReply } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { text, use } from '../support/engine.ts';
import { maintain } from '../../modules/platform/maintain.ts';
import { driveRun } from '../../modules/runs/drive.ts';
import { breakErrorsIndex, plansOf, stateOfErrors, undoErrorsIndex } from '../support/queries/postgres.ts';
import { ageTurns } from '../support/queries/runs.ts';
import { allTenants } from '../support/queries/tenants.ts';

const USAGE = { input_tokens: 1000, output_tokens: 100 };

describe('the dashboard', () => {
  let api: TestApi;
  let model: FakeServer;
  let replies: AnthropicReply[] = [];
  let tenantId: string;
  before(async () => {
    model = await startFakeAnthropic(() => ({ usage: USAGE, ...(replies.shift() ?? text('ok')) }));
    api = await startTestApi(undefined, { env: { ANTHROPIC_API_KEY: 'sk', ANTHROPIC_BASE_URL: model.url } });
    [tenantId = ''] = (await allTenants(api.context.db)).map(({ id }) => id);
  });
  after(async () => {
    await api.close();
    await model.close();
  });

  const get = async (path: string) => {
    const { status, json } = await api.call('GET', path);
    assert.equal(status, 200);
    return json;
  };
  const agentOf = async (name: string, asks = 'anthropic/claude-haiku-4-5') => {
    const body = { name, llm_config: { default_model: asks }, tools: ['calculator'] };
    return (await api.call('POST', '/v1/agents', { body })).json.id as string;
  };
  const run = async (agent: string, more: Record<string, unknown> = {}) => {
    const { json } = await api.call('POST', `/v1/agents/${agent}/runs`, { body: { input: { message: 'x' }, ...more } });
    await drive(json.run_id);
    return json.run_id as string;
  };
  const drive = async (runId: string) => {
    const options = { stop: new AbortController().signal, draining: () => false };
    await driveRun(api.context, { tenantId, runId, seq: 0 }, options);
  };

  it('shows the same sums before and after they are added up, and they are those of the runs', async () => {
    const [first, second] = [await agentOf('first'), await agentOf('second')];
    replies = [use({ name: 'calculator', input: { expression: '1+1' } }), text('2')];
    const ids = [await run(first), await run(first), await run(second, { config: { keep_open: true } })];
    replies = [{ error: { status: 401, type: 'authentication_error' } }];
    ids.push(await run(second));
    const paths = ['runs', 'runs?group_by=agent', 'agents', 'usage', 'usage?group_by=tool', 'usage?group_by=agent'];
    const read = () => Promise.all(paths.map((path) => get(`/v1/dashboard/${path}`)));
    const before = await read();
    assert.equal(await rollUpRuns(api.context), 2, 'nobody knows yet what else the failed one has cost');
    await ageTurns(api, ids.at(-1) ?? '');
    assert.equal(await rollUpRuns(api.context), 1);
    assert.equal(await rollUpRuns(api.context), 0, 'once');
    assert.deepEqual(await read(), before);
    const [runs, byAgent, agents, usage, tools] = before;
    assert.deepEqual(runs.total.by_status, { completed: 2, failed: 1, awaiting_human: 1 });
    assert.deepEqual([runs.total.runs, runs.total.success_rate], [4, 2 / 3]);
    assert.deepEqual([byAgent.groups.length, runs.groups.length], [2, 1]);
    const shown = await Promise.all(ids.map((id) => get(`/v1/runs/${id}`)));
    const sum = (of: 'tokens_in' | 'tokens_out' | 'cost_usd') =>
      shown.reduce((total: number, each) => total + Number(each.usage[of]), 0);
    assert.equal(usage.total.tokens_in, sum('tokens_in'));
    assert.equal(usage.total.tokens_out, sum('tokens_out'));
    assert.ok(Math.abs(usage.total.cost_usd - sum('cost_usd')) < 1e-9);
    assert.deepEqual(
      usage.groups.map((group: { key: string; count: number }) => [group.key, group.count]),
      [['anthropic/claude-haiku-4-5', 4]],
    );
    assert.equal(usage.groups[0].tokens_in, usage.total.tokens_in);
    assert.deepEqual([tools.groups[0].key, tools.groups[0].count], ['calculator', 1]);
    const named = agents.agents.find((each: { name: string }) => each.name === 'first');
    assert.equal(named.avg_tokens_per_run, 1650, 'the average tokens of a run, of the last seven days');
  });

  it('adds money up as decimals, not as binary fractions', async () => {
    const agent = await agentOf('payer');
    // One dollar a million tokens in, five a million out: 0.1, and 0.2 of a run that goes on, which is another sum.
    replies = [
      { ...text('a'), usage: { input_tokens: 50_000, output_tokens: 10_000 } },
      { ...text('b'), usage: { input_tokens: 100_000, output_tokens: 20_000 } },
    ];
    const [ended, open] = [await run(agent), await run(agent, { config: { keep_open: true } })];
    const cost = async (path: string) => (await get(path)).total.cost_usd;
    for (const path of ['runs', 'usage', 'usage?group_by=day', 'runs?group_by=agent']) {
      const [head = '', query = ''] = path.split('?');
      assert.equal(await cost(`/v1/dashboard/${head}?agent_id=${agent}&${query}`), 0.3, path);
    }
    const { agents } = await get(`/v1/dashboard/agents?agent_id=${agent}`);
    assert.equal(agents[0].cost_usd, 0.3);
    for (const [id, paid] of [
      [ended, 0.1],
      [open, 0.2],
    ] as const) {
      const shown = await get(`/v1/runs/${id}`);
      const { conversations } = await get(`/v1/threads/${shown.thread_id}/conversations`);
      assert.deepEqual([shown.usage.cost_usd, conversations[0].cost.total_cost], [paid, paid]);
    }
  });

  it('says of what no price is known, and shows a cost that is not known as none', async () => {
    const unpriced = await agentOf('unpriced', 'anthropic/claude-of-tomorrow');
    const agent = await agentOf('falls back', 'anthropic/claude-haiku-4-5');
    const reply = { ...text('a'), usage: { input_tokens: 50_000, output_tokens: 10_000 } };
    replies = [reply, reply];
    await run(unpriced);
    await run(agent);
    await run(agent, { config: { model_override: 'anthropic/claude-of-tomorrow', keep_open: true } });
    const costs = async (id: string) => {
      const [runs, { agents }, usage, tools] = await Promise.all(
        ['runs?', 'agents?', 'usage?', 'usage?group_by=day&'].map((path) => get(`/v1/dashboard/${path}agent_id=${id}`)),
      );
      const sums = [runs.total, runs.groups[0], agents[0], usage.total, ...usage.groups, tools.groups[0]];
      return sums.map((each: { cost_usd: number; unpriced: number }) => [each.cost_usd, each.unpriced]);
    };
    const both = async () => [await costs(unpriced), await costs(agent)];
    const before = await both();
    const none = [null, 1];
    const one = [0.1, 1];
    assert.deepEqual(before, [
      [none, none, none, none, none, none],
      [one, one, one, one, [0.1, 0], none, one],
    ]);
    await rollUpRuns(api.context);
    assert.deepEqual(await both(), before, 'also when they are added up');
  });

  it('says it of what is asked beside runs, too', async () => {
    const agent = await agentOf('remembers');
    const { workspace_id: workspaceId } = await get(`/v1/agents/${agent}`);
    const made = { tenantId, workspaceId, agentId: agent, threadId: null, runId: null, tokens: 3, leaseMs: 1000 };
    const ask = async (purpose: string, cost: string | null) => {
      const id = newId();
      const call = { ...made, id, rootRunId: id, purpose, provider: 'anthropic', model: 'claude-of-tomorrow', cost };
      await api.context.db.withTenant(tenantId, async (tx) => {
        await beginOwnCall(tx, call);
        await settleOwnCall(tx, id, { state: 'settled', tokensIn: 2, tokensOut: 1, cost });
      });
    };
    await ask('memories', null);
    await ask('contradiction', '0.25');
    await ask('contradiction', null);
    const costsOf = (calls: { purpose: string; cost_usd: number; unpriced: number }[]) =>
      calls.map(({ purpose, cost_usd, unpriced }) => [purpose, cost_usd, unpriced]);
    const expected = [
      ['contradiction', 0.25, 1],
      ['memories', null, 1],
    ];
    const { own_calls } = await get(`/v1/dashboard/usage?agent_id=${agent}`);
    assert.deepEqual(costsOf(own_calls), expected);
    const memory = await get(`/v1/agents/${agent}/memory/usage`);
    assert.deepEqual([costsOf(memory.model_calls), memory.cost_usd, memory.unpriced], [expected, 0.25, 2]);
  });

  it('takes days, and refuses those that cannot be', async () => {
    const past = await get('/v1/dashboard/runs?from=2020-01-01&to=2020-01-31');
    assert.deepEqual([past.from, past.to, past.total.runs], ['2020-01-01', '2020-01-31', 0]);
    const today = new Date().toISOString();
    assert.equal((await get(`/v1/dashboard/runs?from=${today}&to=${today}`)).total.runs, 9);
    for (const what of ['runs', 'agents', 'usage', 'errors']) {
      assert.equal((await api.call('GET', `/v1/dashboard/${what}?from=2021-01-01&to=2020-01-31`)).status, 400, what);
    }
    assert.equal((await api.call('GET', '/v1/dashboard/usage?from=2001-01-01')).status, 400);
    for (const far of ['to=0001-01-01', 'from=9999-12-31&to=9999-12-31', 'to=9999-12-31T23:59:59-10:00']) {
      for (const what of ['runs', 'agents', 'usage', 'errors']) {
        assert.equal((await api.call('GET', `/v1/dashboard/${what}?${far}`)).status, 400, `${what} ${far}`);
      }
    }
    assert.equal((await api.call('GET', '/v1/dashboard/usage?group_by=moon')).status, 400);
  });

  it('counts a turn with the run that has taken it, not with those that go on from there', async () => {
    const agent = await agentOf('goes on');
    const first = await run(agent, { config: { keep_open: true } });
    await api.call('POST', `/v1/runs/${first}/cancel`);
    const { json } = await api.call('POST', `/v1/runs/${first}/retry`);
    await api.call('POST', `/v1/agents/${agent}/runs/${json.new_run_id}/turns`, {
      body: { input: { message: 'and now?' } },
      headers: { prefer: 'respond-async' },
    });
    await drive(json.new_run_id);
    await api.call('POST', `/v1/runs/${json.new_run_id}/cancel`);
    const turns = async () => (await get(`/v1/dashboard/runs?agent_id=${agent}`)).total.turns;
    assert.equal(await turns(), 2);
    await rollUpRuns(api.context);
    assert.equal(await turns(), 2);
  });

  it('finds errors, newest first, with where and what they were', async () => {
    const [talker, other] = [await agentOf('talks on'), await agentOf('talks elsewhere')];
    const refusal = { error: { status: 401, type: 'authentication_error' } };
    replies = [refusal, text('fine'), refusal, refusal];
    const open = await run(talker, { config: { keep_open: true } });
    const options = { stop: new AbortController().signal, draining: () => false };
    for (const message of ['goes well', 'goes wrong']) {
      await api.call('POST', `/v1/agents/${talker}/runs/${open}/turns`, {
        body: { input: { message } },
        headers: { prefer: 'respond-async' },
      });
      await driveRun(api.context, { tenantId, runId: open, seq: 0 }, options);
    }
    const failed = await run(other);
    const { errors } = await get('/v1/dashboard/errors');
    const shown = errors.map(({ run_id, agent_id }: Record<string, string>) => [run_id, agent_id]);
    assert.deepEqual(shown.slice(0, 3), [
      [failed, other],
      [open, talker],
      [open, talker],
    ]);
    const [newest] = errors;
    assert.equal(newest.action_type, 'error');
    assert.equal(newest.action_data.error.code, 'provider_rejected');
    const { json: log } = await api.call('GET', `/v1/runs/${failed}/log?types=error`);
    assert.deepEqual(newest.action_data, log.actions[0].action_data, 'as the log of the run has it');
    assert.equal(newest.timestamp, log.actions[0].timestamp);
    assert.equal(newest.turn_id, log.actions[0].turn_id);
    const times = errors.map(({ timestamp }: { timestamp: string }) => timestamp);
    assert.deepEqual(times, times.toSorted().toReversed());
    const ofTalker = await get(`/v1/dashboard/errors?agent_id=${talker}&limit=1`);
    assert.deepEqual(ofTalker.errors, [errors[1]]);
    const more = await get(`/v1/dashboard/errors?agent_id=${talker}&limit=1&cursor=${ofTalker.next_cursor}`);
    assert.deepEqual(more, { errors: [errors[2]] });
    const today = new Date().toISOString().slice(0, 10);
    assert.deepEqual((await get(`/v1/dashboard/errors?from=${today}`)).errors, errors);
    assert.deepEqual((await get('/v1/dashboard/errors?to=2020-01-01')).errors, []);
    await api.call('DELETE', `/v1/runs/${failed}`);
    const erased = { error: { code: 'provider_rejected', message: '' } };
    assert.deepEqual((await get('/v1/dashboard/errors')).errors[0].action_data, erased);
  });

  it('finds the errors of an agent that are older than their index, while it is made and after', async () => {
    const { db, config } = api.context;
    const agent = await agentOf('has failed long ago');
    const fail = () => {
      replies = [{ error: { status: 401, type: 'authentication_error' } }];
      return run(agent);
    };
    const old = [await fail(), await fail(), await fail()];
    const found = async () =>
      (await get(`/v1/dashboard/errors?agent_id=${agent}`)).errors.map(({ run_id }: { run_id: string }) => run_id);
    await undoErrorsIndex(db);
    await migrate(config, db);
    const { unnamed, indexed } = await stateOfErrors(db);
    assert.ok(unnamed >= 3, 'the migration leaves them to maintenance');
    assert.equal(indexed, false);
    const all = [await fail(), ...old.toReversed()];
    assert.equal((await stateOfErrors(db)).unnamed, unnamed, 'a new one is named as it is written');
    assert.deepEqual(await found(), all);
    if (db.kind === 'postgres') {
      await breakErrorsIndex(db);
      assert.deepEqual(await found(), all, 'an index that is not whole is none');
    }
    assert.equal(await indexErrors(api.context, 2), unnamed, 'in batches');
    assert.deepEqual(await stateOfErrors(db), { unnamed: 0, indexed: true });
    assert.deepEqual(await found(), all);
    assert.deepEqual(await maintain(api.context, 'index-errors'), { named: 0 });
  });

  it('counts who is waited for, of all agents or of one', async () => {
    const waiting = async (agent?: string) =>
      (await get(`/v1/dashboard/runs${agent ? `?agent_id=${agent}` : ''}`)).waiting_for_people;
    const before = await waiting();
    const memory_config = { long_term: { enabled: true } };
    const llm_config = { default_model: 'anthropic/claude-haiku-4-5' };
    const body = { name: 'curious', llm_config, tools: ['ask_user'], memory_config };
    const { id: agent } = (await api.call('POST', '/v1/agents', { body })).json;
    replies = [use({ name: 'ask_user', input: { question: 'Which one?' } })];
    await run(agent);
    for (const content of ['The gate has 3 bars.', 'The gate has 4 bars.']) {
      const entry = { content, memory_type: 'SEMANTIC' };
      assert.equal((await api.call('POST', `/v1/agents/${agent}/memory`, { body: entry })).status, 201);
    }
    assert.deepEqual(await waiting(), { approvals: before.approvals + 1, questions: before.questions + 1 });
    assert.deepEqual(await waiting(agent), { approvals: 1, questions: 1 });
    assert.deepEqual(await waiting(await agentOf('idle')), { approvals: 0, questions: 0 });
    const show = {
      name: 'show',
      description: 'Shows it.',
      transport: { type: 'client' },
      input_schema: { type: 'object' },
    };
    assert.equal((await api.call('POST', '/v1/tools', { body: show })).status, 201);
    const both = { name: 'both', llm_config, tools: ['ask_user', 'show'] };
    const { id: other } = (await api.call('POST', '/v1/agents', { body: both })).json;
    replies = [use({ name: 'ask_user', input: { question: 'Which one?' } }, { name: 'show' })];
    await run(other);
    const expected = { approvals: 0, questions: 1 };
    assert.deepEqual(await waiting(other), expected, 'a question beside a call that is under way elsewhere');
  });

  it('shows what waits in the queues', async () => {
    const agent = await agentOf('waiting');
    await api.call('POST', `/v1/agents/${agent}/runs`, { body: { input: { message: 'x' } } });
    const { queues } = await get('/v1/dashboard/queues');
    const turns = queues.find((each: { queue: string }) => each.queue === 'turns');
    assert.deepEqual([turns.waiting, turns.active], [1, 0]);
    assert.ok(turns.oldest_waiting_at);
  });

  it('shows subtasks that can begin, and those that wait for others', async () => {
    const subtasks = [
      { id: 'a', description: 'First.' },
      { id: 'b', description: 'Then.', dependencies: ['a'] },
    ];
    const body = { name: 'split', input: { user_query: 'x' }, definition: { subtasks } };
    assert.equal((await api.call('POST', '/v1/workflows', { body })).status, 202);
    const { queues } = await get('/v1/dashboard/queues');
    const named = new Map(queues.map(({ queue, ...counts }: { queue: string }) => [queue, counts]));
    assert.deepEqual(
      new Set(named.keys()),
      new Set(['turns', 'tool-calls', 'subtasks', 'consolidation', 'webhooks', 'titles']),
    );
    const { oldest_waiting_at: oldest, ...counts } = named.get('subtasks') as Record<string, unknown>;
    assert.deepEqual([counts, typeof oldest], [{ waiting: 1, active: 0, delayed: 1 }, 'string']);
    const { agents } = await get('/v1/dashboard/agents');
    assert.ok(
      agents.some(({ name }: { name: string | null }) => name === 'planner'),
      'the built-in agent has its name',
    );
  });

  it('reads all that it shows by indexes', async () => {
    const of = { tenantId, workspaceId: tenantId, from: '2026-01-01', to: '2026-02-01' };
    const parts: Record<string, (tx: Tx) => Promise<unknown>> = {
      usage: (tx) => readUsage(tx, { ...of, by: 'day', kinds: ['run'] }),
      'own calls': (tx) => readOwnUsage(tx, of),
      queues: (tx) => readQueueStates(tx, tenantId),
      people: (tx) => countWaiting(tx, of),
      'people that an agent waits for': (tx) => countWaiting(tx, { ...of, agentId: tenantId }),
      errors: (tx) => listFailedTurns(tx, { ...of, limit: 50 }),
      'errors of an agent': (tx) => listFailedTurns(tx, { ...of, agentId: tenantId, limit: 50 }),
    };
    for (const [name, read] of Object.entries(parts)) {
      const plan = await plansOf(api.context.db, tenantId, read);
      assert.match(plan, /Index/, name);
      assert.doesNotMatch(plan, /Seq Scan/, `${name}:\n${plan}`);
    }
  });
});
