import assert from 'node:assert/strict';
import { decideApproval } from '../../../modules/approvals/decide-approval.ts';
import { createPolicy, removePolicy } from '../../../modules/governance/write-policy.ts';
import type { Message } from '../../../core/content.ts';
import type { MemoryOrigin } from '../../../core/memory/entry.ts';
import { addMemory, toMemoryRow } from '../../../modules/memory/add-memory.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { eraseRun } from '../../../modules/runs/erase-run.ts';
import { readCheckpoints } from '../../../modules/runs/read-runs.ts';
import { replayRun } from '../../../modules/runs/replay-run.ts';
import { retryRun } from '../../../modules/runs/retry-run.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { stopTurnOf } from '../../../modules/sessions/client-thread.ts';
import type { ToolRequest } from '../../../modules/tools-registry/register-tool.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import type { AnthropicReply, AnthropicRequest } from '../../support/fake-anthropic.ts';
import { approvalsOfRun, decisionsOfRun } from '../../support/queries/approvals.ts';
import { messagesOfRun } from '../../support/queries/logs.ts';
import { ledgerOfRun } from '../../support/queries/tool-calls.ts';
import { waitUntil } from '../../support/wait-until.ts';

type Tool = Partial<ToolRequest>;

const READ: Tool = { name: 'read', risk_level: 'READ_ONLY', output_trust: 'untrusted' };
const SEND: Tool = { name: 'send' };

describe('A call that a model asks for after it has read what nobody vouches for', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(async () => {
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    await engine.close();
    assert.deepEqual(differences, []);
  });

  const wish = (request: AnthropicRequest, name: string): AnthropicReply =>
    use({ name: offered(request, name), input: { to: 'bob' } });
  /** The model asks for these, one after the other, in one turn. */
  async function play(tools: Tool[], names: string[], more: object = {}) {
    const agent = await engine.agent({ name: `tainted ${Math.random()}`, ...more }, tools);
    engine.say((request, n) => (names[n] ? wish(request, names[n]) : text('done')));
    const { run } = await engine.start(agent, 'go', { config: { keep_open: true } });
    await engine.finish(run);
    return { agent, run, calls: await callsOf(run) };
  }
  /** Under the names that the test has given their tools. */
  const callsOf = async (run: string) =>
    (await ledgerOfRun(engine, run)).map(({ name, status, trust, tainted_by }) => ({
      name: name.split('_')[0],
      status,
      trust,
      tainted_by,
    }));
  const approvalOf = async (run: string) => {
    const [approval] = await approvalsOfRun<{ id: string; message: string }>(engine, run);
    assert.ok(approval);
    return approval;
  };
  const seqOf = async (run: string, type: string) =>
    (await engine.log(run)).find((event) => event.type === type)?.seq ?? 0;

  it('waits for a person, who reads why; an approval lets exactly it pass', async () => {
    const { run, calls } = await play([READ, SEND], ['read', 'send']);
    const seq = await seqOf(run, 'tool.succeeded');
    assert.deepEqual(calls, [
      { name: 'read', status: 'succeeded', trust: 'untrusted', tainted_by: null },
      { name: 'send', status: 'awaiting_approval', trust: 'trusted', tainted_by: [seq] },
    ]);
    const { id, message } = await approvalOf(run);
    assert.match(message, new RegExp(`untrusted content in this turn \\(events ${seq}\\)`));
    await decideApproval(engine.context, { tenantId: engine.tenantId, id, by: engine.caller }, { decision: 'approve' });
    await engine.makeCalls(run);
    await engine.finish(run);
    assert.deepEqual(
      (await callsOf(run)).map(({ status }) => status),
      ['succeeded', 'succeeded'],
    );
    const [decided] = await decisionsOfRun(engine, run);
    assert.deepEqual([decided?.stage, decided?.decision], ['taint', 'require_approval']);
    const messages = await messagesOfRun(engine, run);
    const origins = messages.map(({ origin, trust }) => ({ origin, trust }));
    assert.deepEqual(origins, [
      { origin: 'user', trust: 'trusted' },
      { origin: 'model', trust: 'trusted' },
      { origin: 'tool', trust: 'untrusted' },
      { origin: 'model', trust: 'trusted' },
      { origin: 'tool', trust: 'trusted' },
      { origin: 'model', trust: 'trusted' },
    ]);
  });

  it('is made where its tool accepts that, reads only, or nothing of that kind was read', async () => {
    const kinds: [Tool[], string[]][] = [
      [
        [READ, { ...SEND, accepts_tainted: true }],
        ['read', 'send'],
      ],
      [[READ], ['read', 'read']],
      [
        [{ ...READ, output_trust: 'trusted' }, SEND],
        ['read', 'send'],
      ],
      [
        [{ name: 'read', risk_level: 'READ_ONLY' }, SEND],
        ['read', 'send'],
      ],
    ];
    for (const [tools, names] of kinds) {
      const { calls } = await play(tools, names);
      assert.deepEqual(
        calls.map(({ status }) => status),
        ['succeeded', 'succeeded'],
        JSON.stringify(tools),
      );
    }
  });

  it('waits at every autonomy level, and where a policy allows it', async () => {
    const { db } = engine.context;
    const allow = { name: 'all', priority: 1, when: 'true', decision: 'allow' as const, reason: 'r' };
    const { id } = await db.withTenant(engine.tenantId, (tx) => createPolicy(tx, engine.caller, allow));
    const { calls } = await play([READ, SEND], ['read', 'send'], { autonomy_level: 3 });
    await db.withTenant(engine.tenantId, (tx) => removePolicy(tx, engine.caller, id));
    assert.equal(calls[1]?.status, 'awaiting_approval');
  });

  it('is seen by policies, when it is asked for, approved and made', async () => {
    const { db } = engine.context;
    const rule = (decision: 'block' | 'require_approval') => ({
      name: `tainted ${decision}`,
      priority: 1,
      when: 'size(tainted_by) > 0 && tainted_by[0] > 1',
      decision,
      reason: 'no',
    });
    const add = (decision: 'block' | 'require_approval') =>
      db.withTenant(engine.tenantId, (tx) => createPolicy(tx, engine.caller, rule(decision)));
    const asking = await add('require_approval');
    const { run } = await play([READ, { ...SEND, accepts_tainted: true }], ['read', 'send']);
    const { id } = await approvalOf(run);
    await decideApproval(engine.context, { tenantId: engine.tenantId, id, by: engine.caller }, { decision: 'approve' });
    await engine.makeCalls(run);
    assert.equal((await callsOf(run))[1]?.status, 'succeeded', 'the approval is for this policy');
    const blocking = await add('block');
    const { calls } = await play([READ, SEND], ['read', 'send']);
    assert.equal(calls[1]?.status, 'denied');
    for (const policy of [asking, blocking]) {
      await db.withTenant(engine.tenantId, (tx) => removePolicy(tx, engine.caller, policy.id));
    }
  });

  it('is one of the next turn no more', async () => {
    const { agent, run } = await play([READ, SEND], ['read']);
    engine.say((request, n) => (n === 0 ? wish(request, 'send') : text('sent')));
    await engine.post(agent, run, 'now send');
    await engine.finish(run);
    assert.deepEqual(
      (await callsOf(run)).map(({ tainted_by }) => tainted_by),
      [null, null],
    );
  });

  const LATE: Tool = { name: 'late', output_trust: 'untrusted' };
  const sentOf = async (run: string) => {
    const sent = (await callsOf(run)).find(({ name }) => name === 'send');
    return [sent?.status, sent?.tainted_by];
  };
  /** The model asks for these; the worker of the first call is taken for dead, and the model told that its outcome is unknown. */
  async function playLate(names: string[]) {
    const execution_config = { on_unknown: 'tell_model' as const };
    const agent = await engine.agent({ execution_config }, [LATE, { name: 'look', risk_level: 'READ_ONLY' }, SEND]);
    engine.say((request, n) => (names[n] ? wish(request, names[n]) : text('done')));
    const working = door();
    engine.toolsAnswer(async (_request, n) => {
      if (n === 0) await working.pass();
      return { status: 200, body: { said: 'pay B' } };
    });
    const { run, thread } = await engine.start(agent, 'go', { config: { keep_open: true } });
    await engine.drive(run);
    const making = engine.makeCalls(run);
    await working.reached;
    const answer = async () => {
      working.open();
      await making;
    };
    const dies = async () => {
      await engine.everyoneDies();
      await engine.makeCalls(run);
      await engine.drive(run);
    };
    return { agent, run, thread, answer, dies };
  }

  it('may have come as the late result of a call whose outcome the model was told is unknown', async () => {
    const { run, answer, dies } = await playLate(['late', 'look', 'send']);
    await dies();
    await answer();
    await engine.makeCalls(run);
    await engine.finish(run);
    assert.deepEqual(await sentOf(run), ['awaiting_approval', [await seqOf(run, 'tool.resolved')]]);
  });

  it('may have come late between two turns, and is one of the next turn alone', async () => {
    const { agent, run, answer, dies } = await playLate(['late']);
    await dies();
    await answer();
    const seq = await seqOf(run, 'tool.resolved');
    engine.say((request, n) => (n === 0 ? wish(request, 'send') : text('sent')));
    const { tainted_by } = await sendInTurn(agent, run);
    assert.deepEqual(tainted_by, [seq]);
    const { id } = await approvalOf(run);
    await decideApproval(engine.context, { tenantId: engine.tenantId, id, by: engine.caller }, { decision: 'deny' });
    await engine.finish(run);
    engine.say((request, n) => (n === 0 ? wish(request, 'send') : text('sent')));
    assert.equal((await sendInTurn(agent, run)).tainted_by, null);
  });

  /** The last call of the turn that this message begins. */
  async function sendInTurn(agent: string, run: string) {
    await engine.post(agent, run, 'now send');
    await engine.finish(run);
    const last = (await callsOf(run)).at(-1);
    assert.ok(last);
    return last;
  }

  it('may have been left by a turn that was interrupted, or a run that was cancelled, before a model read it', async () => {
    const stopped = await playLate(['late']);
    await stopped.answer();
    await stopTurnOf(engine.context, { caller: engine.caller, threadId: stopped.thread });
    engine.say((request, n) => (n === 0 ? wish(request, 'send') : text('sent')));
    await sendInTurn(stopped.agent, stopped.run);
    assert.deepEqual(await sentOf(stopped.run), ['awaiting_approval', [await seqOf(stopped.run, 'tool.succeeded')]]);

    const { agent, run, thread, answer, dies } = await playLate(['late']);
    await dies();
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
    await answer();
    engine.say((request, n) => (n === 0 ? wish(request, 'send') : text('sent')));
    const next = await engine.start(agent, 'now send', { threadId: thread });
    await engine.finish(next.run);
    assert.deepEqual(await sentOf(next.run), ['awaiting_approval', [1]]);
  });

  it('may have been left by a run whose model was asked and has not answered, or by one before it', async () => {
    const played = async (cutOff: (run: string) => Promise<unknown>) => {
      const agent = await engine.agent({ name: `unread ${Math.random()}` }, [READ, SEND]);
      engine.say((request, n) => (n === 0 ? wish(request, 'read') : { content: [], hang: true }));
      const { run, thread } = await engine.start(agent, 'go');
      await cutOff(run);
      return { agent, thread };
    };
    const cancel = (runId: string) => cancelRun(engine.context, { tenantId: engine.tenantId, runId });
    const sends = async ({ agent, thread }: { agent: string; thread: string }) => {
      engine.say((request, n) => (n === 0 ? wish(request, 'send') : text('sent')));
      const next = await engine.start(agent, 'now send', { threadId: thread });
      await engine.finish(next.run);
      return sentOf(next.run);
    };
    const cutOff = await played(async (run) => {
      const driving = engine.finish(run).catch(() => undefined);
      await waitUntil('the model is asked again', async () => (await calledOf(run)) === 2);
      await cancel(run);
      await driving;
    });
    const tainted = ['awaiting_approval', [1]];
    assert.deepEqual(await sends(cutOff), tainted, 'cancelled while the model thinks');

    const unasked = async (run: string) => {
      await engine.drive(run);
      await engine.makeCalls(run);
      await cancel(run);
    };
    const idle = await played(unasked);
    engine.say(() => ({ content: [], hang: true }));
    await cancel((await engine.start(idle.agent, 'and now', { threadId: idle.thread })).run);
    assert.deepEqual(await sends(idle), tainted, 'with a run between them that has asked no model');

    const erased = await played(unasked);
    engine.say(() => ({ content: [], hang: true }));
    const { run: between } = await engine.start(erased.agent, 'and now', { threadId: erased.thread });
    await eraseRun(engine.context, engine.caller, { id: between, dependents: true });
    assert.deepEqual(await sends(erased), tainted, 'with an erased run between them');
  });

  const calledOf = async (run: string) => (await engine.log(run)).filter(({ type }) => type === 'model.called').length;

  it('may have been brought up by tools of the provider, or by an output that is read once more', async () => {
    const found = { type: 'web_search_tool_result', tool_use_id: 's', content: [] };
    const agent = await engine.agent({ name: 'searcher' }, [SEND]);
    engine.say((request, n) => {
      if (n > 0) return text('done');
      return { content: [found, ...(wish(request, 'send').content ?? [])] };
    });
    const { run } = await engine.start(agent, 'go');
    await engine.finish(run);
    const responded = await seqOf(run, 'model.responded');
    assert.deepEqual(
      (await callsOf(run)).map(({ tainted_by }) => tainted_by),
      [[responded]],
    );

    const reader = await engine.agent({ name: 'reader', memory_config: { short_term: { strategy: 'hybrid' } } }, [
      READ,
      SEND,
    ]);
    engine.say((request, n) => {
      if (n === 0) return use({ name: offered(request, 'read'), id: 'toolu_first' });
      if (n === 2) return use({ name: 'read_tool_output', input: { tool_use_id: 'toolu_first' } });
      return n === 3 ? wish(request, 'send') : text('ok');
    });
    const later = await engine.start(reader, 'read', { config: { keep_open: true } });
    await engine.finish(later.run);
    await engine.post(reader, later.run, 'again');
    await engine.finish(later.run);
    assert.deepEqual(
      (await callsOf(later.run)).map(({ name, status }) => [name, status]),
      [
        ['read', 'succeeded'],
        ['read', 'succeeded'],
        ['send', 'awaiting_approval'],
      ],
    );
  });

  /** An agent that recalls what it remembers of this origin, and then sends. */
  async function recalling(origin: MemoryOrigin) {
    const short_term = { strategy: 'hybrid' as const };
    const agent = await engine.agent(
      { name: `recalling ${Math.random()}`, tools: ['recall'], memory_config: { short_term } },
      [SEND],
    );
    const entry = { content: 'Bob wants to have money sent.', memory_type: 'SEMANTIC' as const };
    const row = toMemoryRow(entry, { tenantId: engine.tenantId, agentId: agent, origin });
    await engine.context.db.withTenant(engine.tenantId, (tx) => addMemory(tx, row));
    engine.say((request, n) => {
      if (n === 0) return use({ name: 'recall', input: { query: 'What does Bob want?' }, id: 'toolu_recalled' });
      return n === 1 ? wish(request, 'send') : text('ok');
    });
    const { run } = await engine.start(agent, 'go', { config: { keep_open: true } });
    await engine.finish(run);
    return { agent, run };
  }

  it('may have been brought up by what the agent recalls, as far as nobody vouches for that', async () => {
    const { run } = await recalling('web');
    const seq = await seqOf(run, 'tool.succeeded');
    assert.deepEqual(await callsOf(run), [
      { name: 'recall', status: 'succeeded', trust: 'untrusted', tainted_by: null },
      { name: 'send', status: 'awaiting_approval', trust: 'trusted', tainted_by: [seq] },
    ]);
    const said = await recalling('user');
    assert.deepEqual(
      (await callsOf(said.run)).map(({ status, trust, tainted_by }) => [status, trust, tainted_by]),
      [
        ['succeeded', 'trusted', null],
        ['succeeded', 'trusted', null],
      ],
    );
  });

  it('shows in a graph as the trust of what a node that recalls gives to the next', async () => {
    for (const origin of ['web', 'user'] as const) {
      const input = { query: 'What does Bob want?' };
      const workflow_graph = {
        entry_point: 'recall',
        nodes: [
          { name: 'recall', type: 'tool' as const, config: { tool: 'recall', input } },
          { name: 'think', type: 'llm' as const, config: {} },
        ],
        edges: [{ from: 'recall', to: 'think' }],
      };
      const definition = { name: `graph ${origin}`, tools: ['recall'], workflow_graph };
      const agent = await engine.agent(definition);
      const entry = { content: 'Bob wants to have money sent.', memory_type: 'SEMANTIC' as const };
      const row = toMemoryRow(entry, { tenantId: engine.tenantId, agentId: agent, origin });
      await engine.context.db.withTenant(engine.tenantId, (tx) => addMemory(tx, row));
      engine.say([text('ok')]);
      const { run } = await engine.start(agent, 'go');
      await engine.finish(run);
      const told = (await messagesOfRun(engine, run)).find((message) => message.origin === 'drover');
      assert.equal(told?.trust, origin === 'web' ? 'untrusted' : 'trusted', origin);
    }
  });

  it('may have been brought up by a recalled memory that is read once more from the ledger', async () => {
    const { agent, run } = await recalling('tool');
    const { id } = await approvalOf(run);
    await decideApproval(engine.context, { tenantId: engine.tenantId, id, by: engine.caller }, { decision: 'deny' });
    engine.say((request, n) => {
      if (n === 0) return text('ok');
      if (n === 1) return use({ name: 'read_tool_output', input: { tool_use_id: 'toolu_recalled' } });
      return n === 2 ? wish(request, 'send') : text('ok');
    });
    await engine.finish(run);
    await engine.post(agent, run, 'again');
    await engine.finish(run);
    const [, , reread, sent] = await callsOf(run);
    assert.deepEqual([reread?.trust, sent?.status], ['untrusted', 'awaiting_approval']);
  });

  it('may have been brought up by an image or an untrusted file that came with the message', async () => {
    const file = { type: 'file', media_type: 'text/plain', filename: 'a.txt', size: 1 } as const;
    const source = { type: 'url', url: 'https://a.example/a.png' } as const;
    const id = '0192aaaa-0000-7000-8000-000000000000';
    const kinds = [
      [{ type: 'image', source } as const, [2]],
      [{ ...file, file_id: id, trust: 'untrusted' } as const, [2]],
      [{ ...file, file_id: id }, null],
      [{ type: 'text', text: 'as it is' } as const, null],
    ] as const;
    for (const [attachment, by] of kinds) {
      const agent = await engine.agent({ name: `attached ${Math.random()}` }, [SEND]);
      engine.say((request, n) => (n === 0 ? wish(request, 'send') : text('sent')));
      const { run } = await engine.start(agent, 'go', { input: { message: 'go', attachments: [attachment] } });
      await engine.finish(run);
      assert.deepEqual(
        (await callsOf(run)).map(({ status, tainted_by }) => [status, tainted_by]),
        [[by ? 'awaiting_approval' : 'succeeded', by]],
        attachment.type,
      );
      const [message] = await messagesOfRun(engine, run);
      assert.ok(message);
      assert.equal(message.trust, by ? 'untrusted' : 'trusted');
      assert.doesNotMatch(JSON.stringify(message.content), /trust/, 'the conversation holds what models are sent');
    }
  });

  it('is one of a replay too whose messages end with what nobody vouches for', async () => {
    const { run } = await play([READ, SEND], ['read']);
    const messages = (await engine.conversation(run)).slice(0, 3);
    const asked = { role: 'user' as const, content: [{ type: 'text' as const, text: 'now send' }] };
    const said = { role: 'assistant' as const, content: [{ type: 'text' as const, text: 'done' }] };
    const { db } = engine.context;
    const [end] = await db.withTenant(engine.tenantId, (tx) =>
      readCheckpoints(tx, engine.caller, { path: { run }, before: undefined, limit: 1 }),
    );
    assert.ok(end);
    const replayed = async (checkpointId: string, given: Message[]) => {
      engine.say((request, n) => (n === 0 ? wish(request, 'send') : text('sent')));
      const { body } = await replayRun(engine.context, {
        tenantId: engine.tenantId,
        runId: run,
        checkpointId,
        mode: 'live',
        rerunEffects: false,
        modified: { messages: given },
        config: {},
        mayRaiseAutonomy: false,
        traceparent: undefined,
        idempotency: { tenantId: engine.tenantId, route: 'replay', body: null },
      });
      await engine.finish(body.new_run_id);
      return (await sentOf(body.new_run_id))[1];
    };
    assert.deepEqual(await replayed(end.id, messages), [2]);
    assert.deepEqual(
      await replayed('start', [{ ...asked, content: [{ type: 'text', text: 'read' }] }, ...messages.slice(1)]),
      [2],
    );
    assert.equal(await replayed(end.id, [...messages, said, asked]), null, 'a person has spoken since');
    const image = { type: 'image' as const, source: { type: 'url' as const, url: 'https://example.com/a.png' } };
    assert.deepEqual(await replayed('start', [{ role: 'user', content: [image, ...asked.content] }]), [2]);
  });

  it('is one of the retry too that goes on in the middle of the turn', async () => {
    const execution_config = { checkpoint_frequency: 'on_change' as const, provider_outage_seconds: 0 };
    const agent = await engine.agent({ name: 'fails', execution_config }, [READ, SEND]);
    const away: AnthropicReply = {
      error: { status: 500, type: 'api_error', message: 'away', headers: { 'retry-after-ms': '0' } },
    };
    engine.say((request, n) => (n === 0 ? wish(request, 'read') : away));
    const { run } = await engine.start(agent, 'go');
    await engine.finish(run);
    await engine.providersBack();
    engine.say((request, n) => (n === 0 ? wish(request, 'send') : text('sent')));
    const { tenantId } = engine;
    const idempotency = { tenantId, route: 'retry', body: null };
    const asked = { tenantId, runId: run, mayRaiseAutonomy: true, traceparent: undefined, idempotency };
    const retried = (await retryRun(engine.context, asked)).body.new_run_id;
    await engine.finish(retried);
    const seq = await seqOf(retried, 'turn.started');
    assert.deepEqual(
      (await callsOf(retried)).map(({ name, status, tainted_by }) => [name, status, tainted_by]),
      [['send', 'awaiting_approval', [seq]]],
    );
  });
});
