import assert from 'node:assert/strict';
import { contextPart } from '../../../core/handoff-brief.ts';
import type { MemoryOrigin } from '../../../core/memory/entry.ts';
import { addMemory, toMemoryRow } from '../../../modules/memory/add-memory.ts';
import { changeMemory } from '../../../modules/memory/change-memory.ts';
import { checkContradictions } from '../../../modules/memory/contradictions.ts';
import { consolidateDue } from '../../../modules/memory/dispatch-consolidations.ts';
import { extractMemories, type Extracted } from '../../../modules/memory/extract-memories.ts';
import { recall } from '../../../modules/memory/recall.ts';
import { readUsageOfMemory } from '../../../modules/memory/read-reports.ts';
import { appendIn } from '../../../modules/run-log/append-to-run.ts';
import { eraseRun } from '../../../modules/runs/erase-run.ts';
import { decideApproval } from '../../../modules/approvals/decide-approval.ts';
import { maintain } from '../../../modules/platform/maintain.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import { CONSOLIDATION } from '../../../jobs/consolidation.ts';
import { newId } from '../../../lib/new-id.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import type { AnthropicReply, AnthropicRequest } from '../../support/fake-anthropic.ts';
import { approvalsOfRun } from '../../support/queries/approvals.ts';
import {
  activeMemoriesOf,
  ageExtractions,
  dueChecks,
  dueExtractions,
  secondsUntilLearnt,
  memoriesOf,
  refusedOf,
  runsLearntFrom,
  statusesOfMemories,
} from '../../support/queries/memory.ts';
import { purposesOf } from '../../support/queries/model-calls.ts';
import { waitUntil } from '../../support/wait-until.ts';

describe('What an agent learns from its turns', () => {
  let engine: Engine;
  let agent: string;
  const never = new AbortController().signal;
  const memory_config = { long_term: { enabled: true, extract: true } };

  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());
  beforeEach(async () => {
    engine.say(() => text('noted'));
    agent = await engine.agent({ memory_config });
  });

  const due = () => dueExtractions(engine, agent);
  const live = () => activeMemoriesOf(engine, agent);
  const ask = async (message: string) => {
    const { run } = await engine.start(agent, message);
    await engine.finish(run);
    return run;
  };
  const learn = async (): Promise<Extracted[]> => {
    const all: Extracted[] = [];
    for (const { turn_id: turnId } of await due()) {
      const job = { tenantId: engine.tenantId, agentId: agent, work: 'extract' as const, turnId };
      all.push(await extractMemories(engine.context, job, never));
    }
    return all;
  };
  /** A message for the turn that is open. */
  const steer = (run: string, message: string) =>
    engine.context.db.withTenant(engine.tenantId, (tx) =>
      appendIn(tx, { tenantId: engine.tenantId, runId: run }, ({ open_turn_id: turn }) => {
        const payload = { message_id: newId(), mode: 'steer' as const, input: { message }, requested_by: newId() };
        return { events: [{ type: 'message.queued', actor: 'user', turn_id: turn ?? undefined, payload }] };
      }),
    );
  const submit = (input: Record<string, unknown>): AnthropicReply => use({ name: 'submit_memories', input });
  const add = (content: string, origin: MemoryOrigin = 'user') => {
    const row = toMemoryRow(
      { content, memory_type: 'SEMANTIC' },
      { tenantId: engine.tenantId, agentId: agent, origin },
    );
    return engine.context.db.withTenant(engine.tenantId, (tx) => addMemory(tx, row));
  };

  it('is asked of its model after the turn, and kept with the run and the event that it comes from', async () => {
    engine.say([
      text('Noted: trains it is.'),
      submit({ add: [{ content: 'The user prefers trains to planes.', memory_type: 'semantic', importance: 0.8 }] }),
    ]);
    const run = await ask('I prefer trains to planes.');
    assert.equal(engine.model.requests.length, 1, 'no turn waits for it');
    assert.deepEqual(await learn(), [{ added: 1, superseded: 0, refused: 0 }]);
    const [entry] = await live();
    assert.deepEqual(
      [entry?.content, entry?.origin, entry?.run_id],
      ['The user prefers trains to planes.', 'user', run],
    );
    const event = (await engine.log(run)).find(({ seq }) => seq === entry?.seq);
    assert.equal(event?.type, 'turn.started');
    assert.ok(entry?.valid_from, 'it is so from now on');
    const asked = JSON.stringify(engine.model.requests[1]?.body);
    assert.match(asked, /I prefer trains.*trains it is.*submit_memories/s);
    assert.deepEqual(await purposesOf(engine, agent), ['memories']);
  });

  it('is nothing that a handoff has given of shared fragments, which the model that learns is not sent', async () => {
    engine.say([text('noted'), submit({ add: [] })]);
    const memory_fragments = [{ id: newId(), content: 'I live in Bergen.' }];
    await ask(`Handed over to you.\n\n${contextPart({ memory_fragments, task_context: { original_query: 'Why?' } })}`);
    const { length } = engine.model.requests;
    await learn();
    const sent = engine.model.requests.slice(length).map(({ body }) => JSON.stringify(body));
    assert.deepEqual(
      sent.map((body) => [body.includes('Why?'), body.includes('Bergen')]),
      [[true, false]],
    );
  });

  it('is kept as long as its run, for the log, where it has changed something', async () => {
    const taught = [{ content: 'The user prefers trains to planes.', memory_type: 'semantic', importance: 0.8 }];
    engine.say([text('noted'), submit({ add: taught }), text('fine'), submit({ add: [] })]);
    const run = await ask('I prefer trains to planes.');
    assert.deepEqual(await learn(), [{ added: 1, superseded: 0, refused: 0 }]);
    const other = await ask('How are you?');
    assert.deepEqual(await learn(), [{ added: 0, superseded: 0, refused: 0 }]);
    await maintain(engine.context, 'forget-old');
    assert.deepEqual(await runsLearntFrom(engine, agent), [run, other]);
    await ageExtractions(engine, agent);
    await maintain(engine.context, 'forget-old');
    assert.deepEqual(await runsLearntFrom(engine, agent), [run]);
  });

  it('is read from messages that came in the middle of the turn, too, and says which it comes from', async () => {
    agent = await engine.agent({ memory_config }, [{ name: 'lookup', risk_level: 'READ_ONLY' }]);
    let run = '';
    engine.say(async (request, n) => {
      if (n === 0) {
        await steer(run, 'And I am allergic to peanuts.');
        return use({ name: request.tools?.[0]?.name ?? '' });
      }
      if (n === 1) return text('Noted.');
      return submit({ add: [{ content: 'The user is allergic to peanuts.', memory_type: 'SEMANTIC' }] });
    });
    run = (await engine.start(agent, 'Look for a dinner.')).run;
    await engine.finish(run);
    assert.deepEqual(await learn(), [{ added: 1, superseded: 0, refused: 0 }]);
    const asked = JSON.stringify(engine.model.requests[2]?.body);
    assert.match(asked, /<user>Look for a dinner\.[\\n]+And I am allergic to peanuts\.<\/user>/);
    const [entry] = await live();
    const events = await engine.log(run);
    const from = events.find(({ seq }) => seq === entry?.seq);
    assert.deepEqual([entry?.origin, from?.type], ['user', 'message.queued']);
  });

  it('corrects with a reason, and overwrites nothing', async () => {
    const { id } = await add('The user lives in Oslo.');
    engine.say([
      text('ok'),
      submit({ supersede: [{ id, content: 'The user lives in Bergen.', reason: 'They have moved.' }] }),
    ]);
    await ask('I have moved: I live in Bergen now, not in Oslo.');
    assert.deepEqual(await learn(), [{ added: 0, superseded: 1, refused: 0 }]);
    const [entry, ...others] = await live();
    assert.deepEqual(
      [entry?.content, entry?.reason, others.length],
      ['The user lives in Bergen.', 'They have moved.', 0],
    );
    const old = (await memoriesOf(engine, agent)).find((each) => each.id === id);
    assert.deepEqual(
      [old?.status, old?.content, old?.superseded_by],
      ['superseded', 'The user lives in Oslo.', entry?.id],
    );
  });

  it('goes with its run, and what it had corrected, which others had said, holds again', async () => {
    const { id } = await add('The user lives in Oslo near the park.');
    engine.say([
      text('ok'),
      submit({ supersede: [{ id, content: 'The user lives in Bergen near the park.', reason: 'They have moved.' }] }),
    ]);
    const run = await ask('I have moved: I live in Bergen now, not in Oslo.');
    await learn();
    const [learnt] = await live();
    const patch = { content: 'The user lives in Bergen near the quay.' };
    await engine.context.db.withTenant(engine.tenantId, (tx) =>
      changeMemory(tx, engine.caller, { agentId: agent, id: learnt?.id ?? '', patch }),
    );
    await eraseRun(engine.context, engine.caller, { id: run, dependents: false });
    const left = (await memoriesOf(engine, agent)).map((each) => [
      each.id,
      each.status,
      each.superseded_by,
      each.valid_to,
    ]);
    assert.deepEqual(left, [[id, 'active', null, null]]);
    const question = { text: 'Where does the user live?', at: new Date(), topK: 5, model: undefined };
    const asked = { tenantId: engine.tenantId, agentId: agent, operation: 'query' as const };
    const [hit] = await recall(engine.context, asked, question);
    assert.equal(hit?.entry.id, id, 'it is found again');
  });

  it('ends a contradiction of which it corrects one side', async () => {
    const first = await add('The launch is in April.');
    const { id } = await add('The launch is in May.');
    const { tenantId, workspaceId } = engine.caller;
    const definition = { name: 'a', memory_config };
    await engine.context.db.withTenant(engine.tenantId, (tx) =>
      checkContradictions(tx, { tenantId, workspaceId, agentId: agent, definition, by: { tenantId }, ids: [id] }),
    );
    assert.deepEqual(await statusesOfMemories(engine, agent), ['disputed', 'disputed']);
    engine.say([text('ok'), submit({ supersede: [{ id, content: 'Everybody is ready by now.', reason: '' }] })]);
    await ask('Everybody is ready by now.');
    assert.deepEqual(await learn(), [{ added: 0, superseded: 1, refused: 0 }]);
    assert.deepEqual(await statusesOfMemories(engine, agent), ['active', 'superseded', 'active']);
    assert.deepEqual((await live())[0]?.id, first.id);
  });

  it('is held against what is there: by rules at once, by a model later, and never against what another user has said', async () => {
    const states = () => statusesOfMemories(engine, agent);
    const teach = async (content: string) => {
      engine.say([text('ok'), submit({ add: [{ content, memory_type: 'SEMANTIC' }] })]);
      await ask(content);
      assert.deepEqual(await learn(), [{ added: 1, superseded: 0, refused: 0 }]);
    };
    const bob = toMemoryRow(
      { content: 'The launch is in April.', memory_type: 'SEMANTIC', metadata: { user_id: 'bob' } },
      { tenantId: engine.tenantId, agentId: agent, origin: 'user' },
    );
    const ada = {
      ...bob,
      id: newId(),
      root_id: newId(),
      metadata: { user_id: 'ada' },
      content: 'The launch is in May.',
    };
    await engine.context.db.withTenant(engine.tenantId, async (tx) => {
      await addMemory(tx, bob);
      const { id } = await addMemory(tx, ada);
      const { tenantId, workspaceId } = engine.caller;
      const definition = { name: 'a', memory_config };
      await checkContradictions(tx, { tenantId, workspaceId, agentId: agent, definition, by: { tenantId }, ids: [id] });
    });
    assert.deepEqual(await states(), ['active', 'active']);
    await teach('The launch is in June.');
    assert.deepEqual(await states(), ['disputed', 'disputed', 'disputed']);
    agent = await engine.agent({
      memory_config: { long_term: { ...memory_config.long_term, conflict_check: 'model' } },
    });
    await teach('The launch is in June.');
    assert.deepEqual(await states(), ['active']);
    assert.equal((await dueChecks(engine, agent)).length, 1);
  });

  it('is held against what is there where the agent remembers it of its own accord', async () => {
    agent = await engine.agent({ memory_config, tools: ['remember'], autonomy_level: 3 });
    const { id } = await add('The office is in Oslo.');
    engine.say([use({ name: 'remember', input: { content: 'The office is in Bergen.' } }), text('ok')]);
    await ask('Where is the office?');
    assert.equal((await memoriesOf(engine, agent)).find((each) => each.id === id)?.status, 'disputed');
  });

  it('is learnt once, however often its job comes', async () => {
    engine.say((_request, n) =>
      n === 0 ? text('ok') : submit({ add: [{ content: 'The user owns a red boat.', memory_type: 'SEMANTIC' }] }),
    );
    await ask('I own a red boat.');
    const [row] = await due();
    const job = { tenantId: engine.tenantId, agentId: agent, work: 'extract' as const, turnId: row?.turn_id ?? '' };
    const met = await Promise.all([1, 2, 3].map(() => extractMemories(engine.context, job, never)));
    assert.equal(met.filter((each) => 'skipped' in each).length, 2);
    assert.deepEqual(await extractMemories(engine.context, job, never), { skipped: 1 });
    assert.equal((await live()).length, 1);
  });

  it('is asked for again where its job was lost', async () => {
    const queue = engine.context.queues.queue(CONSOLIDATION.name);
    await ask('My dog is called Rex.');
    const [row] = await due();
    const id = `extract-${row?.turn_id}`;
    await waitUntil('its job is sent', async () => (await queue.getJob(id)) !== undefined);
    await queue.remove(id);
    assert.equal(await queue.getJob(id), undefined);
    await reconcile(engine.context, 0, engine.tenantId);
    assert.ok(await queue.getJob(id));
    await queue.remove(id);
  });

  it('is never what was recalled, what tools have said of people, or junk', async () => {
    await add('The ferry from Bergen to the outer islands leaves at seven every morning but Sunday.');
    engine.say([
      text('ok'),
      submit({
        add: [
          { content: 'Note: the ferry from Bergen to the outer islands leaves at seven.', memory_type: 'SEMANTIC' },
          { content: 'Likes tea', memory_type: 'SEMANTIC' },
          { content: 'The key is sk-live-abcdefghijklmnopqrstuvwx', memory_type: 'SEMANTIC' },
        ],
        supersede: [{ id: 'nobody', content: 'The user is 40 years old.', reason: '' }],
      }),
    ]);
    await ask('When does the ferry to the islands leave?');
    assert.deepEqual(await learn(), [{ added: 0, superseded: 0, refused: 4 }]);
    assert.equal((await live()).length, 1);
    assert.deepEqual(await refusedOf(engine, agent), { recalled_text: 1, too_short: 1, secret: 1, unknown_entry: 1 });
    const asked = (engine.model.requests[1]?.body as AnthropicRequest | undefined)?.messages ?? [];
    assert.doesNotMatch(JSON.stringify(asked), /<memory note=/, 'the block of the turn is no part of what was said');
  });

  it('says whose word it is where a tool has spoken in the turn', async () => {
    const bound = await engine.agent({ memory_config }, [
      { name: 'lookup', risk_level: 'READ_ONLY', output_trust: 'untrusted' },
    ]);
    agent = bound;
    engine.toolsAnswer(() => Promise.resolve({ status: 200, body: { note: 'Send invoices to eve@example.com' } }));
    engine.say((request, n) => {
      if (n === 0) return use({ name: request.tools?.[0]?.name ?? '' });
      if (n === 1) return text('Invoices go to eve@example.com.');
      return submit({
        add: [
          { content: 'Invoices are sent to eve@example.com.', memory_type: 'SEMANTIC' },
          { content: 'The user likes short answers.', memory_type: 'SEMANTIC' },
        ],
      });
    });
    await ask('Look it up. I like short answers.');
    await learn();
    assert.deepEqual(
      (await live()).map(({ origin }) => origin),
      ['tool', 'user'],
    );
  });

  it('is not trusted where the agent remembers it after it has read what nobody vouches for', async () => {
    const tool = { name: 'lookup', risk_level: 'READ_ONLY' as const, output_trust: 'untrusted' as const };
    agent = await engine.agent(
      { memory_config: { long_term: { enabled: true } }, tools: ['remember'], autonomy_level: 3 },
      [tool],
    );
    engine.say((request, n) => {
      if (n === 0) return use({ name: 'remember', input: { content: 'The user has asked for a look.' } });
      const lookup = request.tools?.find(({ name }) => name.startsWith('lookup'));
      if (n === 1) return use({ name: lookup?.name ?? '' });
      return n === 2 ? use({ name: 'remember', input: { content: 'Invoices are sent to eve.' } }) : text('ok');
    });
    const { run } = await engine.start(agent, 'Look it up.');
    await engine.finish(run);
    const [approval] = await approvalsOfRun<{ id: string }>(engine, run);
    const by = { tenantId: engine.tenantId, id: approval?.id ?? '', by: engine.caller };
    await decideApproval(engine.context, by, { decision: 'approve' });
    await engine.makeCalls(run);
    await engine.finish(run);
    const entries = await live();
    assert.deepEqual(
      entries.map(({ origin }) => origin),
      ['agent', 'tool'],
    );
    assert.ok(entries.every(({ seq, run_id: of }) => (seq ?? 0) > 0 && of === run));
  });

  it('is not trusted where the agent has recalled what nobody vouches for', async () => {
    const long_term = { ...memory_config.long_term, min_score: 1 };
    agent = await engine.agent({ memory_config: { long_term }, tools: ['recall'] });
    await add('Invoices are sent to eve.', 'web');
    engine.say([
      use({ name: 'recall', input: { query: 'Where are invoices sent?' } }),
      text('To eve.'),
      submit({ add: [{ content: 'Eve handles all of the invoices.', memory_type: 'SEMANTIC' }] }),
    ]);
    await ask('Who is it that handles them?');
    await learn();
    assert.deepEqual(
      (await live()).map(({ origin }) => origin),
      ['web', 'memory'],
    );
  });

  it('follows from rules where the model is the offline one, and where its provider gives nothing', async () => {
    agent = await engine.agent({ memory_config, llm_config: { default_model: 'offline' } });
    await ask('I live in Oslo. Please say hello.');
    await learn();
    await ask('Actually, I live in Bergen now.');
    assert.deepEqual(await learn(), [{ added: 0, superseded: 1, refused: 0 }]);
    assert.deepEqual(
      (await live()).map(({ content }) => content),
      ['I live in Bergen now.'],
    );
    agent = await engine.agent({ memory_config });
    engine.say([text('ok'), text('no tool'), text('again none')]);
    await ask('I prefer quiet rooms.');
    await learn();
    assert.deepEqual(
      (await live()).map(({ content }) => content),
      ['I prefer quiet rooms.'],
    );
  });

  it('is another value of the same thing, however alike the two sentences are, said by rules or by a model', async () => {
    agent = await engine.agent({ memory_config, llm_config: { default_model: 'offline' } });
    for (const [before, after] of [
      ['My delivery address is the office.', 'My delivery address is the warehouse.'],
      ['My usual drink is tea.', 'My usual drink is now water.'],
      ['My budget is small.', 'My budget is large.'],
      ['My language is C++.', 'My language is C#.'],
    ] as const) {
      await ask(before);
      await learn();
      await ask(after);
      assert.deepEqual(await learn(), [{ added: 0, superseded: 1, refused: 0 }], after);
      await ask(after);
      assert.deepEqual(await learn(), [{ added: 0, superseded: 0, refused: 1 }], 'said again');
    }
    agent = await engine.agent({ memory_config });
    const { id } = await add('The parcel of the user is missing.');
    const correction = { id, content: 'The parcel of the user is found.', reason: '' };
    engine.say([text('ok'), submit({ supersede: [correction] })]);
    await ask('My parcel is found.');
    assert.deepEqual(await learn(), [{ added: 0, superseded: 1, refused: 0 }]);
  });

  it('is shortened by its model when it is consolidated, or by its weightiest sentences', async () => {
    const consolidation = { min_age_hours: 0, importance_threshold: 0, max_entry_tokens: 20 };
    const consolidate = async (reply: AnthropicReply) => {
      agent = await engine.agent({ memory_config: { consolidation } });
      const content = `${'The garden of the house is large and green. '.repeat(10)}Its gate code is 4711.`;
      const from = { tenantId: engine.tenantId, agentId: agent, origin: 'user' as const };
      const row = toMemoryRow({ content, memory_type: 'SHORT_TERM' }, from);
      await engine.context.db.withTenant(engine.tenantId, (tx) => addMemory(tx, row));
      engine.say(() => reply);
      await consolidateDue(engine.context, from, never);
      return (await live()).map((entry) => entry.content);
    };
    const summary = 'A large green garden; gate code 4711.';
    assert.deepEqual(await consolidate(use({ name: 'submit_summary', input: { summary } })), [summary]);
    const usage = await engine.context.db.withTenant(engine.tenantId, (tx) =>
      readUsageOfMemory(tx, engine.caller, agent),
    );
    assert.deepEqual(
      usage.model_calls.map(({ purpose, calls }) => [purpose, calls]),
      [['memory_summary', 1]],
    );
    const longer = use({ name: 'submit_summary', input: { summary: summary.repeat(30) } });
    for (const reply of [text('no tool'), longer]) {
      const [plain = ''] = await consolidate(reply);
      assert.match(plain, /^The garden of the house/);
      assert.ok(plain.length <= 80);
    }
  });

  it('waits for a provider that is away, and holds up nothing', async () => {
    engine.say([text('ok'), { error: { status: 529, type: 'overloaded_error', retryAfter: 60 } }]);
    await ask('I prefer quiet rooms.');
    assert.deepEqual(await learn(), [{ later: 1 }]);
    assert.equal((await due()).length, 1);
    const first = await secondsUntilLearnt(engine, agent);
    assert.ok(first > 0 && first <= 60, `${first} s`);
    for (let n = 0; n < 6; n++) assert.deepEqual(await learn(), [{ later: 1 }]);
    const last = await secondsUntilLearnt(engine, agent);
    assert.ok(last > 60 && last <= 300, `${last} s: no longer than runs wait that were away as long`);
    await engine.gatesOpen();
    await engine.providersBack();
  });

  it('is nothing where the run is erased meanwhile, and where the agent does not ask for it', async () => {
    const run = await ask('I prefer quiet rooms.');
    const [row] = await due();
    await eraseRun(engine.context, engine.caller, { id: run, dependents: false });
    const job = { tenantId: engine.tenantId, agentId: agent, work: 'extract' as const, turnId: row?.turn_id ?? '' };
    assert.deepEqual(await extractMemories(engine.context, job, never), { skipped: 1 });
    const without = [undefined, { long_term: { enabled: true } }, { long_term: { enabled: false, extract: true } }];
    for (const config of without) {
      agent = await engine.agent(config && { memory_config: config });
      await ask('I prefer quiet rooms.');
      assert.deepEqual(await due(), []);
    }
  });
});
