import assert from 'node:assert/strict';
import { clearInRuns } from '../../../db/memory-forget.ts';
import { lockExtraction } from '../../../db/memory-extractions.ts';
import { lockMemoryOf } from '../../../db/memory-lock.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { forgetMemories } from '../../../modules/memory/forget-memories.ts';
import { addMemory, toMemoryRow } from '../../../modules/memory/add-memory.ts';
import { consolidateShortTerm } from '../../../modules/memory/consolidate-short-term.ts';
import { dropExpired } from '../../../modules/memory/drop-expired.ts';
import { createSpace, removeFragment } from '../../../modules/memory/spaces.ts';
import { writeToSpace } from '../../../modules/memory/write-fragment.ts';
import { decideApproval } from '../../../modules/approvals/decide-approval.ts';
import { changeMemory } from '../../../modules/memory/change-memory.ts';
import { maintain } from '../../../modules/platform/maintain.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { eraseRun, eraseThread } from '../../../modules/runs/erase-run.ts';
import { rememberCall } from '../../../modules/memory/remember.ts';
import { newId } from '../../../lib/new-id.ts';
import { attemptOf } from '../../support/tool-attempt.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { tablesWith } from '../../support/find-text.ts';
import {
  dueExtractions,
  forgettingsOf,
  makeForgettingsDue,
  memoriesOfRun,
  passTimeOf,
  passTimeOfSpace,
  termsLike,
} from '../../support/queries/memory.ts';
import { approvalsOfRun, pendingApprovals } from '../../support/queries/approvals.ts';
import { sessionsWaitingIn } from '../../support/queries/postgres.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { memoryOf } from '../../support/memory-in-run.ts';

describe('What a run has of memories that are forgotten', () => {
  let engine: Engine;
  let agent: string;

  const memory_config = { long_term: { enabled: true } };
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());
  beforeEach(async () => {
    engine.say(() => text('noted'));
    agent = await engine.agent({ memory_config, tools: ['remember', 'recall', 'calculator'] });
  });

  const { add, sent, retrieved, live, replayed, ask } = memoryOf(() => ({ engine, agent }));

  it('leaves no word of what is forgotten anywhere, but in what was said itself', async () => {
    const canary = 'zanzibarcanary';
    await add(`The word of the day is ${canary} today.`);
    engine.say([
      use({ name: 'recall', input: { query: 'What is the word of the day?' } }),
      use({ name: 'remember', input: { content: `Another word is ${canary} too.` } }),
      text('done'),
    ]);
    const run = await ask('What is the word of the day?');
    assert.match(JSON.stringify(await retrieved(run)), new RegExp(canary));
    const { removed } = await engine.context.db.withTenant(engine.tenantId, (tx) =>
      forgetMemories(tx, engine.caller, { agentId: agent, what: { query: canary }, dryRun: false }),
    );
    assert.deepEqual(removed, { entries: 2, summaries: 0, archive: 0, events: 1 });
    const tables = await tablesWith(engine.context.db, canary);
    const found = [
      ...new Set(tables.map((table) => table.replace('public.', '').replace(/_(from|default|p?\d).*/, ''))),
    ];
    // The model has said it in its own message, which is the conversation's.
    assert.deepEqual(found, ['messages']);
    assert.deepEqual(await termsLike(engine, canary.slice(0, 8)), []);
    assert.deepEqual(
      (await retrieved(run))[0]?.entries.map(({ content }) => content),
      [''],
    );
  });

  it('leaves no word of what is forgotten in a recorded replay of a run that was given it', async () => {
    const canary = 'lemurcanary';
    await add(`The word of the day is ${canary} today.`);
    engine.say([use({ name: 'recall', input: { query: 'What is the word of the day?' } }), text('I know it.')]);
    const run = await ask('What is the word of the day?');
    const again = await replayed(run);
    assert.match(JSON.stringify(await retrieved(again)), new RegExp(canary));
    const forget = (dryRun: boolean) =>
      engine.context.db.withTenant(engine.tenantId, (tx) =>
        forgetMemories(tx, engine.caller, { agentId: agent, what: { query: canary }, dryRun }),
      );
    assert.deepEqual([(await forget(true)).removed.events, (await forget(false)).removed.events], [2, 2]);
    // The result of the call is in the conversation, too.
    const tables = (await tablesWith(engine.context.db, canary)).filter((table) => !/\bmessages/.test(table));
    assert.deepEqual(tables, []);
  });

  it('is given to no turn that was about to write down what is forgotten at that moment', async () => {
    const canary = 'tapircanary';
    await add(`The word of the day is ${canary} today.`);
    await add('The word of the week is ferry.');
    const { run } = await engine.start(agent, 'What is the word of the day?');
    const { commit } = engine.context;
    const forgetting: Context = {
      ...engine.context,
      async commit(change) {
        if (change.events.some(({ type }) => type === 'memory.retrieved'))
          await engine.context.db.withTenant(engine.tenantId, (tx) =>
            forgetMemories(tx, engine.caller, { agentId: agent, what: { query: canary }, dryRun: false }),
          );
        return commit(change);
      },
    };
    await engine.drive(run, forgetting);
    assert.deepEqual(await tablesWith(engine.context.db, canary), []);
    assert.equal(engine.model.requests.length, 1);
    const request = JSON.stringify(sent(0));
    assert.deepEqual([request.includes(canary), request.includes('ferry')], [false, true]);
  });

  /** Does something just before what `recall` or `remember` came to is committed. */
  const beforeResult = (act: () => Promise<unknown>): Context => {
    let isDone = false;
    return {
      ...engine.context,
      async commit(change) {
        if (!isDone && /"(?:entries|added)":/.test(JSON.stringify([change.calls, change.new_calls]))) {
          isDone = true;
          await act();
        }
        return engine.context.commit(change);
      },
    };
  };
  const finishWithin = async (run: string, context: Context) => {
    for (let round = 0; round < 10 && (await engine.drive(run, context)) === 'yielded'; round++)
      await engine.makeCalls(run, context);
  };
  const forget = (query: string) =>
    engine.context.db.withTenant(engine.tenantId, (tx) =>
      forgetMemories(tx, engine.caller, { agentId: agent, what: { query }, dryRun: false }),
    );

  for (const others of [0, 2])
    it(`is in no result of a call beside ${others} others that was about to be written down as it was forgotten`, async () => {
      const canary = `kudu${others}canary`;
      agent = await engine.agent({ tools: ['recall', 'calculator'] });
      await add(`The word of the day is ${canary} today.`);
      await add('The word of the week is ferry.');
      const beside = Array.from({ length: others }, (_, n) => ({
        name: 'calculator',
        input: { expression: `${n}+1` },
      }));
      const asks = use({ name: 'recall', input: { query: 'What is the word?' } }, ...beside);
      engine.say((_, n) => (n === 0 ? asks : text('done')));
      const { run } = await engine.start(agent, 'What do you know?');
      await finishWithin(
        run,
        beforeResult(() => forget(canary)),
      );
      assert.deepEqual(await tablesWith(engine.context.db, canary), []);
      assert.equal(engine.model.requests.length, 2);
      assert.equal(JSON.stringify(sent(1)).includes(canary), false);
    });

  it('is in no result of a call whose run was cancelled as it was forgotten', async () => {
    const canary = 'gazellecanary';
    agent = await engine.agent({ tools: ['recall'] });
    await add(`The word of the day is ${canary} today.`);
    engine.say((_, n) => (n === 0 ? use({ name: 'recall', input: { query: 'What is the word?' } }) : text('done')));
    const { run } = await engine.start(agent, 'What do you know?');
    const ending = beforeResult(async () => {
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
      await forget(canary);
    });
    await finishWithin(run, ending);
    assert.deepEqual(await tablesWith(engine.context.db, canary), []);
  });

  it('is in no call that has told it, whether it was there already or forgotten before that was written down', async () => {
    const canary = 'elandcanary';
    const tell = use({ name: 'remember', input: { content: `The word of the day is ${canary}.` } });
    const words = async () =>
      (await tablesWith(engine.context.db, canary)).filter((table) => !/\bmessages/.test(table));
    engine.say((_, n) => (n === 0 ? tell : text('ok')));
    const { run } = await engine.start(agent, 'Note the word.');
    await finishWithin(
      run,
      beforeResult(() => forget(canary)),
    );
    assert.deepEqual(await words(), []);
    // A turn that is given nothing has not used it otherwise.
    agent = await engine.agent({ tools: ['remember'] });
    for (const _ of [1, 2]) {
      engine.say((_request, n) => (n === 0 ? tell : text('ok')));
      await ask('Note the word.');
    }
    assert.equal((await live()).length, 1);
    await forget(canary);
    assert.deepEqual(await words(), []);
  });

  it('is in nothing that people were asked about calls that have told it, or have said in its place', async () => {
    const canary = 'gemsbokcanary';
    const read = { name: 'lookup', risk_level: 'READ_ONLY' as const, output_trust: 'untrusted' as const };
    agent = await engine.agent({ tools: ['remember'], autonomy_level: 3 }, [read]);
    const tell = (...places: string[]) =>
      use(...places.map((place) => ({ name: 'remember', input: { content: `A ${canary} was seen in ${place}.` } })));
    const answers = [tell('Oslo', 'Bergen'), tell('Rome', 'Pisa', 'Turin'), text('done')];
    engine.say((request, n) => answers[n - 1] ?? use({ name: offered(request, 'lookup') }));
    const { run } = await engine.start(agent, 'Look it up.');
    const edit = { decision: 'edit' as const, arguments: { content: `The ${canary} sleeps at noon.` } };
    for (const decision of [edit, { decision: 'approve' as const }, { decision: 'approve' as const }]) {
      await engine.finish(run);
      const [asked] = await pendingApprovals(engine, run);
      const ref = { tenantId: engine.tenantId, id: asked?.id ?? '', by: engine.caller };
      await decideApproval(engine.context, ref, decision);
    }
    await engine.finish(run);
    assert.equal((await forget(canary)).removed.entries, 5);
    const tables = await tablesWith(engine.context.db, canary);
    assert.deepEqual(
      tables.filter((table) => !/\bmessages/.test(table)),
      [],
    );
    const approvals = await approvalsOfRun<{ id: string; status: string; arguments: { steps?: object[] } }>(
      engine,
      run,
    );
    assert.deepEqual(
      approvals.map(({ status, arguments: args }) => [status, args.steps?.length]),
      [
        ['approved', undefined],
        ['approved', undefined],
        ['approved', 3],
      ],
    );
  });

  it('goes when its time is over, be it an entry or a fragment of a space', async () => {
    agent = await engine.agent({ memory_config: { long_term: { enabled: true, scopes: ['agent', 'space'] } } });
    const expires_at = new Date(Date.now() + 60_000);
    await add('The word of the day is serowcanary.', { expires_at });
    const { id: space } = await engine.context.db.withTenant(engine.tenantId, (tx) =>
      createSpace(tx, engine.caller, { scope: 'team', allowed_agents: [agent] }),
    );
    const write = (data: string, more: object = {}) =>
      engine.context.db.withTenant(engine.tenantId, (tx) =>
        writeToSpace(tx, engine.caller, { space_id: space, content: { type: 'text', data }, expires_at, ...more }),
      );
    const { fragment } = await write('The word of the day is kudutcanary.');
    const run = await ask('What is the word of the day?');
    assert.match(JSON.stringify(await retrieved(run)), /serowcanary.*kudutcanary/);
    const { fragment: gone } = await write('The word of the day is bushbuckcanary.');
    const other = await ask('What is the word of the day?');
    assert.match(JSON.stringify(await retrieved(other)), /bushbuckcanary/);
    await engine.context.db.withTenant(engine.tenantId, (tx) => removeFragment(tx, engine.caller, gone.id));
    assert.deepEqual(await tablesWith(engine.context.db, 'bushbuckcanary'), []);
    await write('The word of the day is kudutcanary too.', {
      fragment_id: fragment.id,
      conflict_type: 'semantic_conflict',
    });
    await passTimeOf(engine, agent, 1);
    await passTimeOfSpace(engine, space, 1);
    await dropExpired(engine.context);
    for (const canary of ['serowcanary', 'kudutcanary'])
      assert.deepEqual(await tablesWith(engine.context.db, canary), []);
    assert.deepEqual(
      (await retrieved(run))[0]?.entries.map(({ content }) => content),
      ['', ''],
    );
  });

  it('goes from the call that has told it, though it was put into the archive since', async () => {
    agent = await engine.agent({ tools: ['remember'] });
    const content = 'The word of the day is steenbokcanary.';
    const input = { content, memory_type: 'SHORT_TERM' };
    engine.say((_, n) => (n === 0 ? use({ name: 'remember', input }) : text('ok')));
    await ask('Note the word.');
    const consolidation = { min_age_hours: 0, importance_threshold: 1 };
    const { tenantId, workspaceId } = engine.platform;
    const asked = { strategy: 'importance' as const, maxEntries: 9, at: new Date(), keyId: null };
    const definition = { name: 'a', memory_config: { consolidation } };
    const { evicted } = await consolidateShortTerm(
      engine.context,
      { ...asked, tenantId, workspaceId, agentId: agent, definition },
      new AbortController().signal,
    );
    assert.equal(evicted, 1);
    await forget('steenbokcanary');
    const tables = await tablesWith(engine.context.db, 'steenbokcanary');
    assert.deepEqual(
      tables.filter((table) => !/\bmessages/.test(table)),
      [],
    );
  });

  it('is changed by nobody but its own tenant', async () => {
    await add('The word of the day is saigacanary.');
    const run = await ask('What is the word of the day?');
    const ids = ((await retrieved(run))[0]?.entries ?? []).map(({ id }) => id);
    const cleared = (tenant: string) =>
      engine.context.db.withTenant(tenant, (tx) => clearInRuns(tx, { ids, runs: [run] }));
    assert.deepEqual([await cleared(newId()), await cleared(engine.tenantId)], [0, 1]);
  });

  it('is in no part of a result that was read on, neither in the ledger nor in what a later call is sent', async () => {
    const canary = 'bongocanary';
    agent = await engine.agent({ tools: ['recall', 'read_tool_output'] });
    await add(`The word of the day is ${canary} today.`);
    engine.say([
      use({ name: 'recall', input: { query: 'What is the word?' }, id: 'toolu_recall' }),
      use({ name: 'read_tool_output', input: { tool_use_id: 'toolu_recall' } }),
      text('I know it.'),
    ]);
    const { run } = await engine.start(agent, 'What do you know?', { config: { keep_open: true } });
    await engine.finish(run);
    assert.equal(JSON.stringify(sent(2)).split(canary).length, 3, 'it has read it twice');
    await forget(canary);
    assert.deepEqual(await tablesWith(engine.context.db, canary), []);
    engine.say([text('well')]);
    await engine.post(agent, run, 'And now?');
    await engine.finish(run);
    assert.equal(JSON.stringify(sent(0)).includes(canary), false);
  });

  /** Dies when `recall` or `remember` has come to something, after `act`: once that is committed, or before. */
  const dyingAtResult = (act: () => Promise<unknown>, { commits }: { commits: boolean }): Context => {
    let isDone = false;
    return {
      ...engine.context,
      async commit(change) {
        const isResult = !isDone && /"(?:entries|added|text)":/.test(JSON.stringify([change.calls, change.new_calls]));
        if (!isResult) return engine.context.commit(change);
        isDone = true;
        await act();
        if (commits) await engine.context.commit(change);
        throw new Error('killed');
      },
    };
  };
  const lookAgain = async () => {
    await makeForgettingsDue(engine);
    await maintain(engine.context, 'forget-again');
  };

  it('is in no result of a process that died before it looked at that again, and whose run nobody goes on with', async () => {
    const canary = 'sitatungacanary';
    agent = await engine.agent({ tools: ['recall'] });
    await add(`The word of the day is ${canary} today.`);
    engine.say((_, n) => (n === 0 ? use({ name: 'recall', input: { query: 'What is the word?' } }) : text('done')));
    const { run } = await engine.start(agent, 'What do you know?');
    const dying = dyingAtResult(() => forget(canary), { commits: true });
    await assert.rejects(finishWithin(run, dying), /killed/);
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
    assert.notDeepEqual(await tablesWith(engine.context.db, canary), []);
    await lookAgain();
    assert.deepEqual(await tablesWith(engine.context.db, canary), []);
  });

  it('is in nothing that was being read on of a result as it was forgotten', async () => {
    const canary = 'duikercanary';
    agent = await engine.agent({ tools: ['recall', 'read_tool_output'] });
    await add(`The word of the day is ${canary} today.`);
    engine.say([
      use({ name: 'recall', input: { query: 'What is the word?' }, id: 'toolu_duiker' }),
      use({ name: 'read_tool_output', input: { tool_use_id: 'toolu_duiker' } }),
      text('I know it.'),
    ]);
    const { run } = await engine.start(agent, 'What do you know?');
    let results = 0;
    const reading: Context = {
      ...engine.context,
      async commit(change) {
        const told = JSON.stringify([change.calls, change.new_calls]).includes(canary);
        if (told && ++results === 2) await forget(canary);
        return engine.context.commit(change);
      },
    };
    await finishWithin(run, reading);
    assert.equal(results, 2);
    await lookAgain();
    assert.deepEqual(await tablesWith(engine.context.db, canary), []);
  });

  it('is not added anew by a call that is made again as its process died', async () => {
    const canary = 'nyalacanary';
    const tell = use({ name: 'remember', input: { content: `The word of the day is ${canary}.` } });
    engine.say((_, n) => (n === 0 ? tell : text('ok')));
    const { run } = await engine.start(agent, 'Note the word.');
    const dying = dyingAtResult(() => forget(canary), { commits: false });
    await assert.rejects(finishWithin(run, dying), /killed/);
    await engine.everyoneDies();
    await engine.makeCalls(run);
    await engine.finish(run);
    assert.deepEqual(await live(), []);
    await lookAgain();
    const words = (await tablesWith(engine.context.db, canary)).filter((table) => !/\bmessages/.test(table));
    assert.deepEqual(words, []);
  });

  it('is looked for again until no call can have it any more', async () => {
    const { id } = await add('The word of the day is oribi today.');
    engine.say([use({ name: 'recall', input: { query: 'What is the word?' } }), text('I know it.')]);
    await ask('What do you know?');
    await forget('oribi');
    await lookAgain();
    assert.equal((await forgettingsOf(engine, id)).length, 1);
    await makeForgettingsDue(engine, { minutesOld: 11 });
    await maintain(engine.context, 'forget-again');
    assert.deepEqual(await forgettingsOf(engine, id), []);
  });

  it('is told to no later call of the model, by whichever process, once it is forgotten', async () => {
    const canary = 'oryxcanary';
    agent = await engine.agent({ tools: ['recall'] });
    await add(`The word of the day is ${canary} today.`);
    engine.say([use({ name: 'recall', input: { query: 'What is the word?' } }), text('I know it.')]);
    const { run } = await engine.start(agent, 'What do you know?', { config: { keep_open: true } });
    await engine.finish(run);
    assert.match(JSON.stringify(sent(1)), new RegExp(canary));
    await forget(canary);
    engine.say([text('well')]);
    await engine.post(agent, run, 'And now?');
    await engine.finish(run);
    const warm = sent(0);
    engine.say([text('well')]);
    await engine.post(agent, run, 'And then?');
    await engine.everyoneDies();
    await engine.finish(run);
    assert.equal(JSON.stringify([warm, sent(0)]).includes(canary), false);
    assert.deepEqual(sent(0).slice(0, warm.length), warm);
  });

  it('is not learnt from a run that is erased meanwhile', async function () {
    // There one session has all transactions, one after the other.
    if (DOMAIN_MODE === 'embedded') this.skip();
    const canary = 'quollcanary';
    const remembering = { long_term: { enabled: true, extract: true } };
    agent = await engine.agent({ memory_config: remembering });
    const run = await ask('Hello there.');
    const { tenantId } = engine;
    const [due] = await dueExtractions(engine, agent);
    let erasing: Promise<boolean> | undefined;
    await engine.context.db.withTenant(tenantId, async (tx) => {
      await lockMemoryOf(tx, agent);
      assert.ok(await lockExtraction(tx, due?.turn_id ?? ''));
      erasing = eraseRun(engine.context, engine.caller, { id: run, dependents: false });
      const { db } = engine.context;
      const waits = async () => (await sessionsWaitingIn(db, 'drover:memory:')).length > 0;
      await waitUntil('the erasure waits for what is being learnt', waits);
      const memory = { content: `I keep a ${canary}.`, memory_type: 'SEMANTIC' as const };
      await addMemory(tx, toMemoryRow(memory, { tenantId, agentId: agent, origin: 'user', runId: run }));
    });
    assert.equal(await erasing, true);
    assert.deepEqual(await tablesWith(engine.context.db, canary), []);
  });

  it('is remembered for no run that was erased while its call was under way', async () => {
    const run = await ask('Hello there.');
    await eraseRun(engine.context, engine.caller, { id: run, dependents: false });
    const late = attemptOf(
      { content: 'Ada keeps three quokkas at home.' },
      { tenantId: engine.tenantId, runId: run, toolCallId: newId() },
    );
    assert.equal((await rememberCall(engine.context, late)).kind, 'error');
    assert.deepEqual(await live(), []);
  });

  it('goes with the run that it was learnt from: as it was corrected, and from what other runs were given', async () => {
    const canary = 'zebracanary';
    engine.say([use({ name: 'remember', input: { content: `The code word is ${canary} today.` } }), text('ok')]);
    const run = await ask('Remember the code word.');
    engine.say([use({ name: 'recall', input: { query: 'Which code word is it?' } }), text('I know it.')]);
    const other = await ask('What is the code word?');
    assert.match(JSON.stringify(await retrieved(other)), new RegExp(canary));
    const [learnt] = await memoriesOfRun(engine, run);
    const patch = { content: `The code word was ${canary} yesterday.` };
    await engine.context.db.withTenant(engine.tenantId, (tx) =>
      changeMemory(tx, engine.caller, { agentId: agent, id: learnt?.id ?? '', patch }),
    );
    await eraseRun(engine.context, engine.caller, { id: run, dependents: false });
    assert.deepEqual(await live(), []);
    // The other conversation has the result of its own call as it was said there.
    const tables = (await tablesWith(engine.context.db, canary)).filter((table) => !/\bmessages/.test(table));
    assert.deepEqual(tables, []);
  });

  it('goes with the thread that it was said to belong to', async () => {
    const { run, thread } = await engine.start(agent, 'Hello.');
    await engine.finish(run);
    await add('The okapicanary sleeps at noon.', { thread_id: thread });
    await add('The okapi sleeps at night.', { thread_id: 'another' });
    await eraseThread(engine.context, engine.caller, { id: thread, dependents: false });
    assert.deepEqual(
      (await live()).map(({ content }) => content),
      ['The okapi sleeps at night.'],
    );
    assert.deepEqual(await tablesWith(engine.context.db, 'okapicanary'), []);
  });
});
