import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import type { TestApi } from '../support/api.ts';
import { agentsOf, hasResult, startAgentsThatSay, text, use, type Say } from '../support/agents-that-say.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { attemptOf } from '../support/tool-attempt.ts';
import { ledgerOfRun } from '../support/queries/tool-calls.ts';
import { waitUntil } from '../support/wait-until.ts';
import { handOver } from '../../modules/workflows/hand-over.ts';
import { carryHandoffs } from '../../modules/workflows/carry-handoffs.ts';
import { tablesWith } from '../support/find-text.ts';

const CONTEXT = {
  task_context: { original_query: 'Who are the top five?', task_description: 'Find them.' },
  execution_context: { decisions_made: [{ what: 'only SaaS' }], partial_results: { a: 1 } },
  reasoning_context: { key_findings: ['Acme leads'] },
};

describe('handoffs', () => {
  let api: TestApi;
  let model: FakeServer;
  let key: string;
  let tenant: { id: string; key: string };
  let { ids, make, read, agent } = {} as ReturnType<typeof agentsOf>;
  let say: Say;

  const submit = async (source: string) => {
    const requirements = { preferred_agents: [ids[source]], required_capabilities: [source] };
    const { id } = await make('/v1/tasks', { description: 'Find them.', requirements }, 202);
    return id as string;
  };
  const hand = (task: string, more = {}, expected = 201) =>
    make(
      '/v1/handoffs',
      {
        task_id: task,
        source_agent_id: ids['ann'],
        target_agent_id: ids['bob'],
        context: CONTEXT,
        reason: 'Needs an analyst',
        urgency: 'high',
        ...more,
      },
      expected,
    );
  const inState = async (path: string, status: string) => {
    await waitUntil(`${path} is ${status}`, async () => {
      await carryHandoffs(api.context);
      return (await read(path)).status === status;
    });
    return read(path);
  };

  before(async () => {
    ({ api, model } = await startAgentsThatSay((...asked) => say(...asked)));
  });
  after(() => api.close());
  beforeEach(async () => {
    tenant = await api.newTenant();
    ({ key } = tenant);
    ({ ids, make, read, agent } = agentsOf(api, key));
    await agent('ann', { capabilities: [{ skill_name: 'ann' }], tools: ['handoff'] });
    await agent('bob', { capabilities: [{ skill_name: 'bob' }], tools: ['reject_handoff'] });
    say = (name) => (name === 'ann' ? undefined : text(`done by ${name}`));
  });

  it('give a task that is worked on to another agent, with what was found out', async () => {
    const task = await submit('ann');
    await inState(`/v1/tasks/${task}`, 'in_progress');
    const before = await read(`/v1/tasks/${task}`);
    const canonical = createHash('sha256')
      .update(
        '{"execution_context":{"decisions_made":[{"what":"only SaaS"}],"partial_results":{"a":1}},"reasoning_context":{"key_findings":["Acme leads"]},"task_context":{"original_query":"Who are the top five?","task_description":"Find them."}}',
      )
      .digest('hex');
    const made = await hand(task, { checksum: canonical, schema_version: '1.0' });
    assert.deepEqual([made.status, made.checksum, made.urgency], ['initiated', canonical, 'high']);
    assert.ok(Date.parse(made.estimated_pickup) > 0);
    const done = await inState(`/v1/tasks/${task}`, 'completed');
    assert.equal(done.assignment.assigned_agent_id, ids['bob']);
    assert.match(done.assignment.assignment_reason, /handoff/);
    assert.equal(done.output.result, 'done by bob');
    assert.equal(done.retry_count, 0);
    const handoff = await inState(`/v1/handoffs/${made.handoff_id}`, 'completed');
    assert.equal(handoff.target_run_id, done.run_id);
    assert.deepEqual(handoff.context, CONTEXT);
    assert.deepEqual(
      handoff.chain.map(({ handoff_id }: { handoff_id: string }) => handoff_id),
      [made.id],
    );
    assert.equal((await read(`/v1/runs/${before.run_id}`)).status, 'cancelled');
    const brief = JSON.stringify(model.requests.at(-1)?.body);
    for (const part of ['Needs an analyst', 'only SaaS', 'Acme leads', made.id]) assert.ok(brief.includes(part), part);
    const { events } = await read(
      `/v1/runs/${done.workflow_id}/events?types=handoff.initiated,handoff.accepted,handoff.completed`,
    );
    assert.deepEqual(
      events.map(({ type }: { type: string }) => type),
      ['handoff.initiated', 'handoff.accepted', 'handoff.completed'],
    );
    assert.equal((await read(`/v1/handoffs?source_agent_id=${ids['ann']}`)).handoffs.length, 1);
  });

  it('have the checksum of the context as it is sent, whatever of it is replaced', async () => {
    const task = await submit('ann');
    await inState(`/v1/tasks/${task}`, 'in_progress');
    const digest = (query: string) => {
      const json = JSON.stringify({ task_context: { original_query: query } });
      return createHash('sha256').update(json).digest('hex');
    };
    const context = { task_context: { original_query: 'a\0b' } };
    await hand(task, { context, checksum: digest('a\uFFFDb') }, 422);
    const made = await hand(task, { context, checksum: digest('a\0b') });
    assert.equal(made.context.task_context.original_query, 'a\uFFFDb');
    assert.equal(made.checksum, digest('a\uFFFDb'), 'that of the context it is shown with');
  });

  it('leave nothing of what was handed over where their workflow is erased', async () => {
    const canary = `canary-${randomUUID()}`;
    // Runs of the test before may still ask: they are told nothing of this one.
    say = (name, said) => (name === 'ann' ? undefined : text(said.includes(canary) ? `done: ${canary}` : 'done'));
    const requirements = { preferred_agents: [ids['ann']], required_capabilities: ['ann'] };
    const { id: task } = await make('/v1/tasks', { description: canary, requirements }, 202);
    await inState(`/v1/tasks/${task}`, 'in_progress');
    const told = {
      context: { reasoning_context: { key_findings: [canary] } },
      reason: canary,
      expected_action: canary,
    };
    const { id: handoff } = await hand(task, told);
    const { workflow_id: workflow } = await inState(`/v1/tasks/${task}`, 'completed');
    await inState(`/v1/handoffs/${handoff}`, 'completed');
    const { db } = api.context;
    assert.ok((await tablesWith(db, canary)).some((name) => name.includes('handoffs')));
    const { status, text: answer } = await api.call('DELETE', `/v1/runs/${workflow}`, { key });
    assert.equal(status, 202, answer);
    assert.deepEqual(await tablesWith(db, canary), []);
    assert.equal((await read(`/v1/handoffs/${handoff}`)).reason, '');
  });

  it('forget a shared fragment that they gave to their target, however the request is answered', async () => {
    const { id: space } = await make('/v1/memory/spaces', { name: 'facts' });
    const add = async (content: string) => (await make('/v1/memory/write', { space_id: space, content })).id;
    const [gone, kept] = [await add('The canary is green.'), await add('The cat is grey.')];
    const task = await submit('ann');
    await inState(`/v1/tasks/${task}`, 'in_progress');
    const agents = { source_agent_id: ids['ann'], target_agent_id: ids['bob'] };
    const context = { memory_references: { shared_fragments: [gone, kept] } };
    const body = { task_id: task, ...agents, context, reason: 'x' };
    const send = () => api.call('POST', '/v1/handoffs', { key, body, headers: { 'idempotency-key': 'once' } });
    const { id, summary } = (await send()).json;
    assert.equal(summary.memory_fragments.length, 2);
    await inState(`/v1/handoffs/${id}`, 'completed');
    assert.equal((await api.call('DELETE', `/v1/memory/fragments/${gone}`, { key })).status, 204);
    const left = [{ id: kept, content: 'The cat is grey.' }];
    assert.deepEqual((await read(`/v1/handoffs/${id}`)).summary.memory_fragments, left);
    assert.deepEqual((await send()).json.summary.memory_fragments, left);
  });

  it('leave out of later model calls a fragment that is forgotten, and hand none on with the conversation', async () => {
    const { id: space } = await make('/v1/memory/spaces', { name: 'facts' });
    const add = async (content: string) => (await make('/v1/memory/write', { space_id: space, content })).id;
    const [gone, kept] = [await add('The canary is green.'), await add('The cat is grey.')];
    await agent('cal', { tools: ['calculator', 'handoff'] });
    const sent: string[][] = [];
    say = (name, said) => {
      if (name === 'ann') return undefined;
      sent.push(['green', 'grey'].filter((word) => said.includes(`is ${word}.`)));
      return name === 'bob' ? text('done by bob') : answers[sent.length - 1]?.();
    };
    const forget = async () => {
      assert.equal((await api.call('DELETE', `/v1/memory/fragments/${gone}`, { key })).status, 204);
      return use('calculator', { expression: '1+1' });
    };
    const pass = async () => use('handoff', { to_agent: 'bob', reason: 'Better at it' });
    const answers = [forget, pass, async () => text('I have handed over.')];
    const task = await submit('ann');
    await inState(`/v1/tasks/${task}`, 'in_progress');
    const context = { memory_references: { shared_fragments: [gone, kept] } };
    await hand(task, { target_agent_id: ids['cal'], context });
    const { output } = await inState(`/v1/tasks/${task}`, 'completed');
    assert.equal(output.result, 'done by bob');
    assert.deepEqual(sent, [['green', 'grey'], ['grey'], ['grey'], []]);
  });

  it('say in the words of a model what a long conversation came to', async () => {
    const requirements = { preferred_agents: [ids['ann']], required_capabilities: ['ann'] };
    const description = 'Find them, and look everywhere. '.repeat(100);
    const { id } = await make('/v1/tasks', { description, requirements }, 202);
    await inState(`/v1/tasks/${id}`, 'in_progress');
    // Before that nothing was said that could be told.
    const { run_id: source } = await read(`/v1/tasks/${id}`);
    await waitUntil('ann is asked', async () => {
      return (await read(`/v1/runs/${source}/events?types=model.called`)).events.length === 1;
    });
    const asked: string[] = [];
    const shorten = (summary: string) => {
      say = (name, said, { tools = [] }) => {
        if (tools[0]?.name !== 'submit_summary') return name === 'ann' ? undefined : text(`done by ${name}`);
        asked.push(said);
        return use('submit_summary', { summary });
      };
    };
    shorten('Everywhere was looked.');
    const made = await hand(id, { context: {}, target_tokens: 200 });
    assert.deepEqual(made.summary, { summarized_history: ['Everywhere was looked.'] });
    assert.match(asked[0] ?? '', /<conversation>user: .*look everywhere/);
    const done = await inState(`/v1/tasks/${id}`, 'completed');
    assert.equal(done.output.result, 'done by bob');
    assert.equal(asked.length, 1);
  });

  it('refuse what does not fit, goes nowhere, or is not theirs', async () => {
    const task = await submit('ann');
    await inState(`/v1/tasks/${task}`, 'in_progress');
    const cases: [Record<string, unknown>, number][] = [
      [{ checksum: 'f'.repeat(64) }, 422],
      [{ schema_version: '99.0' }, 422],
      [{ target_agent_id: ids['ann'] }, 422],
      [{ source_agent_id: ids['bob'], target_agent_id: ids['ann'] }, 409],
      [{ task_id: randomUUID() }, 404],
      [{ target_agent_id: randomUUID() }, 404],
      [{ context: { surprise: 1 } }, 400],
      [{ context: 'text' }, 400],
      [{ urgency: 'now' }, 400],
      [{ context: { execution_context: { partial_results: { a: 'x'.repeat(1024 * 1024) } } } }, 413],
    ];
    for (const [more, status] of cases) await hand(task, more, status);
    await api.call('DELETE', `/v1/agents/${ids['bob']}`, { key });
    await hand(task, {}, 409);
    assert.equal((await read(`/v1/tasks/${task}`)).status, 'in_progress');
  });

  it('are shortened to what the target takes, never beyond it', async () => {
    await agent('tiny', { constraints: { max_context_tokens: 120 } });
    const task = await submit('ann');
    await inState(`/v1/tasks/${task}`, 'in_progress');
    const context = {
      ...CONTEXT,
      execution_context: { ...CONTEXT.execution_context, current_progress: 'x'.repeat(9000) },
    };
    const made = await hand(task, { context, target_agent_id: ids['tiny'] });
    assert.deepEqual([made.target_tokens, made.summary_tokens <= 120, made.context_tokens > 2000], [120, true, true]);
    assert.deepEqual(made.summary.decisions, [{ what: 'only SaaS' }]);
    assert.deepEqual(made.context, context);
    await inState(`/v1/handoffs/${made.id}`, 'completed');
  });

  it('go on from a task that has ended in a run by itself, and leave the task as it is', async () => {
    say = (name) => text(`done by ${name}`);
    const task = await submit('ann');
    const before = await inState(`/v1/tasks/${task}`, 'completed');
    const body = { headers: { 'idempotency-key': 'once' } };
    const asked = {
      task_id: task,
      source_agent_id: ids['ann'],
      target_agent_id: ids['bob'],
      context: CONTEXT,
      reason: 'x',
    };
    const made = await api.call('POST', '/v1/handoffs', { key, body: asked, ...body });
    const again = await api.call('POST', '/v1/handoffs', { key, body: asked, ...body });
    assert.deepEqual([made.status, again.json.id], [201, made.json.id]);
    const handoff = await inState(`/v1/handoffs/${made.json.id}`, 'completed');
    assert.equal((await read(`/v1/runs/${handoff.target_run_id}`)).agent_id, ids['bob']);
    assert.deepEqual(await read(`/v1/tasks/${task}`), before);
  });

  it('of a task that has ended are ten at most, none with a context that the target had before', async () => {
    say = (name) => text(`done by ${name}`);
    const task = await submit('ann');
    await inState(`/v1/tasks/${task}`, 'completed');
    const { id } = await hand(task);
    const refused = await hand(task, {}, 409);
    assert.match(refused.detail, /same context/);
    assert.deepEqual(refused.chain, [id]);
    const made = [id];
    for (let n = 2; n <= 10; n++)
      made.push((await hand(task, { context: { task_context: { original_query: `${n}` } } })).id);
    const last = await hand(task, { context: {} }, 409);
    assert.match(last.detail, /10 times/);
    assert.deepEqual(last.chain, made);
  });

  it('come back to the source of a task where the target rejects them', async () => {
    say = (name, said, request) => {
      if (name === 'ann') return said.includes('has not taken') ? text('done by ann') : undefined;
      return hasResult(request) ? text('no') : use('reject_handoff', { reason: 'Not my field' });
    };
    const task = await submit('ann');
    await inState(`/v1/tasks/${task}`, 'in_progress');
    const { id } = await hand(task);
    const done = await inState(`/v1/tasks/${task}`, 'completed');
    assert.deepEqual([done.output.result, done.assignment.assigned_agent_id], ['done by ann', ids['ann']]);
    const handoff = await read(`/v1/handoffs/${id}`);
    assert.deepEqual([handoff.status, handoff.rejection.message], ['rejected', 'Not my field']);
    assert.equal(handoff.returned_run_id, done.run_id);
  });

  it('are cancelled with the workflow of a task that is on its way back', async () => {
    say = (name, _said, request) =>
      name === 'ann' || hasResult(request) ? undefined : use('reject_handoff', { reason: 'Not my field' });
    const task = await submit('ann');
    await inState(`/v1/tasks/${task}`, 'in_progress');
    const { id } = await hand(task);
    await inState(`/v1/handoffs/${id}`, 'rejected');
    await make(`/v1/runs/${(await read(`/v1/tasks/${task}`)).workflow_id}/cancel`, {}, 202);
    await inState(`/v1/handoffs/${id}`, 'cancelled');
  });

  it('are made by an agent as a tool: the task goes on with the target', async () => {
    say = (name, _said, request) => {
      if (name === 'bob') return text('done by bob');
      return hasResult(request)
        ? text('I have handed over.')
        : use('handoff', { to_agent: 'bob', reason: 'Better at it', key_findings: ['It is blue'] });
    };
    const task = await submit('ann');
    const done = await inState(`/v1/tasks/${task}`, 'completed');
    assert.deepEqual([done.output.result, done.assignment.assigned_agent_id], ['done by bob', ids['bob']]);
    const { handoffs } = await read(`/v1/handoffs?task_id=${task}`);
    assert.deepEqual([handoffs.length, handoffs[0].status, handoffs[0].reason], [1, 'completed', 'Better at it']);
    assert.ok(JSON.stringify(model.requests.at(-1)?.body).includes('It is blue'));
  });

  it('of a task that is handed on and on are each completed, as each target has done its part', async () => {
    await agent('dan', { tools: ['handoff'] });
    await agent('eve');
    const next: Record<string, string> = { ann: 'dan', dan: 'eve' };
    say = (name, _said, request) => {
      const to = next[name];
      if (to === undefined) return text(`done by ${name}`);
      return hasResult(request) ? text('over') : use('handoff', { to_agent: to, reason: 'Better at it' });
    };
    const task = await submit('ann');
    const done = await inState(`/v1/tasks/${task}`, 'completed');
    assert.equal(done.output.result, 'done by eve');
    const { handoffs } = await read(`/v1/handoffs?task_id=${task}`);
    for (const { handoff_id } of handoffs) await inState(`/v1/handoffs/${handoff_id}`, 'completed');
    assert.equal(handoffs.length, 2);
    const { events } = await read(`/v1/runs/${done.workflow_id}/events?types=handoff.completed`);
    assert.deepEqual(
      events.map(({ payload }: { payload: { handoff_id: string } }) => payload.handoff_id),
      handoffs.map(({ handoff_id }: { handoff_id: string }) => handoff_id).toReversed(),
    );
  });

  it('are made in a conversation, which the target goes on with, and comes back where it rejects them', async () => {
    let isRejecting = false;
    say = (name, said, request) => {
      if (name === 'bob') {
        if (!isRejecting) return text('bob here');
        return hasResult(request) ? text('no') : use('reject_handoff', { reason: 'Not today' });
      }
      if (said.includes('has not taken')) return text('ann again');
      return hasResult(request) ? text('over') : use('handoff', { capabilities: ['bob'], reason: 'Better at it' });
    };
    const talk = async () => {
      const { run_id, thread_id } = await make(`/v1/agents/${ids['ann']}/runs`, { input: { message: 'Help me' } }, 202);
      await inState(`/v1/runs/${run_id}`, 'completed');
      let handoff: { id: string; source_run_id: string; target_run_id: string } | undefined;
      await waitUntil('it is handed over', async () => {
        await carryHandoffs(api.context);
        const { handoffs } = await read(`/v1/handoffs?source_agent_id=${ids['ann']}`);
        handoff = handoffs.find((each: { source_run_id: string }) => each.source_run_id === run_id);
        return handoff?.target_run_id != null;
      });
      return { id: handoff?.id ?? '', thread_id, target: handoff?.target_run_id ?? '' };
    };
    const first = await talk();
    await inState(`/v1/handoffs/${first.id}`, 'completed');
    const run = await read(`/v1/runs/${first.target}`);
    assert.deepEqual([run.agent_id, run.thread_id, run.output.message], [ids['bob'], first.thread_id, 'bob here']);
    const sent = JSON.stringify(model.requests.at(-1)?.body);
    // What was said is there as it was said, once.
    assert.equal(sent.split('Help me').length, 2);
    isRejecting = true;
    const second = await talk();
    await waitUntil('it has come back', async () => {
      await carryHandoffs(api.context);
      return (await read(`/v1/handoffs/${second.id}`)).returned_run_id !== null;
    });
    const { returned_run_id: returned, status } = await read(`/v1/handoffs/${second.id}`);
    assert.equal(status, 'rejected');
    const back = await inState(`/v1/runs/${returned}`, 'completed');
    assert.deepEqual([back.agent_id, back.thread_id, back.output.message], [ids['ann'], second.thread_id, 'ann again']);
  });

  it('are made once, however often the call is made and whoever carries them', async () => {
    const { id: tenantId } = tenant;
    say = () => {
      const calls = [1, 2].map(() => use('sleep', { seconds: 600 }));
      return { content: calls.flatMap(({ content }) => content ?? []), stop_reason: 'tool_use' };
    };
    const eve = await agent('eve', { tools: ['handoff', 'sleep'] });
    const { run_id: runId, thread_id } = await make(`/v1/agents/${eve}/runs`, { input: { message: 'Go' } }, 202);
    await inState(`/v1/runs/${runId}`, 'awaiting_human');
    // Two calls for which the run waits, in place of those of the tool.
    const [one, other] = await ledgerOfRun({ ...api, tenantId }, runId);
    const attempt = { ...attemptOf({ to_agent: 'bob', reason: 'x' }), tenantId, runId };
    const call = { ...attempt, toolCallId: one?.id ?? '', attempt: one?.attempt ?? 0 };
    const made = await Promise.all([1, 2, 3, 4].map(() => handOver(api.context, call)));
    const outputs = new Set(made.map((outcome) => JSON.stringify(outcome)));
    assert.equal(outputs.size, 1, [...outputs].join());
    const second = await handOver(api.context, { ...call, toolCallId: other?.id ?? '' });
    assert.equal(second.kind === 'error' && second.code, 'handed-over');
    await carryHandoffs(api.context);
    assert.equal((await read('/v1/handoffs')).handoffs[0].status, 'initiated');
    say = (name) => text(`done by ${name}`);
    await make(`/v1/runs/${runId}/cancel`, {}, 202);
    await carryHandoffs(api.context);
    assert.equal((await read('/v1/handoffs')).handoffs[0].status, 'cancelled');
    assert.equal((await read(`/v1/runs?thread_id=${thread_id}`)).runs.length, 1);
    const task = await submit('ann');
    await inState(`/v1/tasks/${task}`, 'completed');
    await hand(task);
    await Promise.all([1, 2, 3].map(() => carryHandoffs(api.context)));
    assert.equal((await read(`/v1/runs?agent_id=${ids['bob']}`)).runs.length, 1);
  });

  it('do not go around without end', async () => {
    say = (name, _said, request) =>
      hasResult(request)
        ? text('over')
        : use('handoff', { to_agent: name === 'ann' ? 'eve' : 'ann', reason: 'You do it', progress: randomUUID() });
    await agent('eve', { tools: ['handoff'] });
    const { thread_id } = await make(`/v1/agents/${ids['ann']}/runs`, { input: { message: 'Go' } }, 202);
    let runs: { id: string; status: string }[] = [];
    await waitUntil('the chain has ended', async () => {
      await carryHandoffs(api.context);
      ({ runs } = await read(`/v1/runs?thread_id=${thread_id}`));
      return runs.length === 11 && runs.every(({ status }) => status === 'completed');
    });
    const { handoffs } = await read('/v1/handoffs');
    assert.equal(handoffs.length, 10);
    assert.equal((await read(`/v1/handoffs/${handoffs[0].id}`)).chain.length, 10);
  });
});
