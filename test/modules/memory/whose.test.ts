import assert from 'node:assert/strict';
import { forgetMemories } from '../../../modules/memory/forget-memories.ts';
import { addMemory, toMemoryRow, type NewMemory } from '../../../modules/memory/add-memory.ts';
import { consolidateShortTerm } from '../../../modules/memory/consolidate-short-term.ts';
import { extractMemories } from '../../../modules/memory/extract-memories.ts';
import { maintain } from '../../../modules/platform/maintain.ts';
import type { MemoryOrigin } from '../../../core/memory/entry.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { tablesWith } from '../../support/find-text.ts';
import { ageAccesses, dueExtractions, memoriesOf } from '../../support/queries/memory.ts';
import { resultsOf } from '../../support/queries/tool-calls.ts';

describe('Whose memories they are', () => {
  let engine: Engine;
  let agent: string;
  const memory_config = { long_term: { enabled: true, extract: true, scopes: ['user' as const] } };

  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());
  beforeEach(async () => {
    engine.say(() => text('noted'));
    agent = await engine.agent({ memory_config, tools: ['remember', 'recall'] });
  });

  const add = (content: string, more: Partial<NewMemory> & { origin?: MemoryOrigin } = {}) => {
    const { origin = 'user', ...rest } = more;
    const from = { tenantId: engine.tenantId, agentId: agent, origin };
    const row = toMemoryRow({ content, memory_type: 'SEMANTIC', ...rest }, from);
    return engine.context.db.withTenant(engine.tenantId, (tx) => addMemory(tx, row));
  };
  const ask = async (user: string, message: string) => {
    const { run } = await engine.start(agent, message, { config: { session: { user_id: user } } });
    await engine.finish(run);
    return run;
  };
  const given = async (run: string) =>
    (await engine.log(run)).flatMap(({ type, payload }) =>
      type === 'memory.retrieved' ? (payload.entries as { content: string }[]).map(({ content }) => content) : [],
    );
  const owners = async (content: string) =>
    (await memoriesOf(engine, agent)).flatMap((entry) =>
      entry.content === content ? [entry.metadata['user_id'] ?? null] : [],
    );
  const outputs = async (run: string) => (await resultsOf(engine, run, 'recall')).map(({ output }) => output);
  const consolidate = () =>
    consolidateShortTerm(
      engine.context,
      {
        tenantId: engine.tenantId,
        workspaceId: engine.platform.workspaceId,
        agentId: agent,
        definition: { name: 'a' },
        strategy: 'importance',
        maxEntries: 100,
        at: new Date(),
        keyId: null,
      },
      new AbortController().signal,
    );

  it('is said where the agent remembers: another user does not recall it, nor finds it said already', async () => {
    const content = 'The code of the garage is kept under the third stone.';
    const remember = async (user: string) => {
      engine.say([use({ name: 'remember', input: { content } }), text('ok')]);
      await ask(user, 'Please remember where the code is.');
    };
    const recalled = async (user: string) => {
      engine.say([use({ name: 'recall', input: { query: 'Where is the code of the garage?' } }), text('so')]);
      const run = await ask(user, 'Where is the code of the garage?');
      const [output] = (await outputs(run)) as { entries: { content: string }[] }[];
      return [await given(run), output?.entries.map((entry) => entry.content)];
    };
    await remember('ada');
    assert.deepEqual(await owners(content), ['ada']);
    assert.deepEqual(await recalled('ada'), [[content], [content]]);
    assert.deepEqual(await recalled('bob'), [[], []]);
    await remember('bob');
    await remember('bob');
    assert.deepEqual(await owners(content), ['ada', 'bob']);
    assert.deepEqual(await recalled('bob'), [[content], [content]]);
  });

  it('is learnt for each user, though another has said the same', async () => {
    const content = 'I live in Oslo.';
    const learn = async (user: string) => {
      engine.say([
        text('ok'),
        use({ name: 'submit_memories', input: { add: [{ content, memory_type: 'SEMANTIC' }] } }),
      ]);
      await ask(user, content);
      const [due] = await dueExtractions(engine, agent);
      const of = { tenantId: engine.tenantId, agentId: agent, work: 'extract' as const, turnId: due?.turn_id ?? '' };
      return extractMemories(engine.context, of, new AbortController().signal);
    };
    const added = { added: 1, superseded: 0, refused: 0 };
    assert.deepEqual([await learn('ada'), await learn('bob')], [added, added]);
    assert.deepEqual(await learn('bob'), { added: 0, superseded: 0, refused: 1 });
    assert.deepEqual(await owners(content), ['ada', 'bob']);
  });

  it('is no other user’s to correct', async () => {
    const { id } = await add('The car of the family is red.', { metadata: { user_id: 'bob' } });
    engine.say([
      text('ok'),
      use({
        name: 'submit_memories',
        input: { supersede: [{ id, content: 'The car of the family is blue.', reason: '' }] },
      }),
    ]);
    await ask('ada', 'The car of the family is blue.');
    const [due] = await dueExtractions(engine, agent);
    const of = { tenantId: engine.tenantId, agentId: agent, work: 'extract' as const, turnId: due?.turn_id ?? '' };
    const learnt = await extractMemories(engine.context, of, new AbortController().signal);
    assert.deepEqual(learnt, { added: 0, superseded: 0, refused: 1 });
    assert.doesNotMatch(JSON.stringify(engine.model.requests[1]?.body), /family is red/, 'nor is it shown');
  });

  it('is shown to whoever learns from a turn, however many others have said something similar', async () => {
    const code = (n: number) => `The code of the garage is ${n}.`;
    const { id } = await add(code(4000), { metadata: { user_id: 'ada' }, origin: 'agent' });
    for (let n = 0; n < 13; n++) await add(code(1000 + n), { metadata: { user_id: 'bob' } });
    const correction = { id, content: code(5500), reason: '' };
    engine.say([text('ok'), use({ name: 'submit_memories', input: { supersede: [correction] } })]);
    await ask('ada', code(5500));
    const [due] = await dueExtractions(engine, agent);
    const of = { tenantId: engine.tenantId, agentId: agent, work: 'extract' as const, turnId: due?.turn_id ?? '' };
    const learnt = await extractMemories(engine.context, of, new AbortController().signal);
    assert.deepEqual(learnt, { added: 0, superseded: 1, refused: 0 });
  });

  it('is not touched by runs of nobody, nor known to them, where the agent keeps users apart', async () => {
    const content = 'The meeting with the bank is at 14:00 on Monday.';
    const { id } = await add(content, { metadata: { user_id: 'ada' } });
    const run = async (reply: Parameters<Engine['say']>[0]) => {
      engine.say(reply);
      const started = await engine.start(agent, 'When is the meeting with the bank?');
      await engine.finish(started.run);
      return started.run;
    };
    const remember = async (said: string) => {
      const of = await run([use({ name: 'remember', input: { content: said } }), text('ok')]);
      const [output] = (await resultsOf(engine, of, 'remember')).map(({ output: told }) => told);
      return output as { id: string; added: boolean };
    };
    const states = async () => (await memoriesOf(engine, agent)).map(({ status }) => status);
    const told = await remember(content);
    assert.deepEqual([told.added, told.id === id], [true, false], 'it is not told of what ada has said');
    assert.equal((await remember(content)).id, told.id, 'what nobody has said is known to nobody');
    assert.deepEqual(await states(), ['active', 'active']);
    await remember('The meeting with the bank is at 16:00 on Monday.');
    assert.deepEqual(await states(), ['active', 'disputed', 'disputed'], 'what nobody has said is held against itself');
    await add('The keys of the flat are in Oslo.', { metadata: { user_id: 'ada' } });
    for (const { turn_id: turnId } of await dueExtractions(engine, agent)) {
      const of = { tenantId: engine.tenantId, agentId: agent, work: 'extract' as const, turnId };
      await extractMemories(engine.context, of, new AbortController().signal);
    }
    const supersede = [{ id, content: 'The meeting with the bank is at 18:00 on Monday.', reason: '' }];
    await run([text('ok'), use({ name: 'submit_memories', input: { supersede } })]);
    const [due] = await dueExtractions(engine, agent);
    const of = { tenantId: engine.tenantId, agentId: agent, work: 'extract' as const, turnId: due?.turn_id ?? '' };
    const learnt = await extractMemories(engine.context, of, new AbortController().signal);
    assert.deepEqual(learnt, { added: 0, superseded: 0, refused: 1 });
    assert.doesNotMatch(JSON.stringify(engine.model.requests.at(-1)?.body), /keys of the flat/, 'nor is it shown');
  });

  it('is held against what a run of nobody remembers where all of the agent’s memories are for everybody', async () => {
    agent = await engine.agent({ memory_config: { long_term: { enabled: true } }, tools: ['remember'] });
    await add('The meeting with the bank is at 14:00.', { metadata: { user_id: 'ada' } });
    engine.say([use({ name: 'remember', input: { content: 'The meeting with the bank is at 16:00.' } }), text('ok')]);
    const { run } = await engine.start(agent, 'When is the meeting?');
    await engine.finish(run);
    const states = (await memoriesOf(engine, agent)).map(({ status }) => status);
    assert.deepEqual(states, ['disputed', 'disputed']);
  });

  it('is kept by consolidation: what is of another user, trusted, loaded, or there for longer is not merged away', async () => {
    const content = 'The ferry leaves at noon.';
    const short = { memory_type: 'SHORT_TERM' as const, relevance_score: 1 };
    await add(content, { metadata: { user_id: 'ada' }, expires_at: new Date(Date.now() + 3_600_000) });
    await add(content, { metadata: { user_id: 'ada' }, origin: 'web' });
    const others = [
      { metadata: { user_id: 'bob' } },
      { metadata: { user_id: 'ada', profile: true } },
      { metadata: { user_id: 'ada', subject: 'ferries' } },
    ];
    for (const other of others) await add(content, { ...short, ...other });
    assert.deepEqual([(await consolidate()).merged, (await owners(content)).length], [0, 5]);
    await add(content, { ...short, metadata: { user_id: 'bob' } });
    await add(content, { ...short, metadata: { user_id: 'ada' } });
    assert.deepEqual([(await consolidate()).merged, (await owners(content)).length], [2, 5]);
  });

  it('is said again where what says the same holds no more, or is about to go', async () => {
    const of = { metadata: { user_id: 'ada' } };
    const past = new Date(Date.now() - 3_600_000);
    const soon = new Date(Date.now() + 3_600_000);
    const [moved, expired, noon] = [
      'I live in Oslo by the sea.',
      'Ada keeps bees at home.',
      'The ferry leaves at noon.',
    ];
    await add(moved, { ...of, valid_to: past });
    await add(expired, { ...of, expires_at: past });
    engine.say((_, n) => (n === 0 ? use({ name: 'remember', input: { content: expired } }) : text('noted')));
    await ask('ada', moved);
    assert.equal((await owners(expired)).length, 2);
    const [due] = await dueExtractions(engine, agent);
    engine.say([
      use({ name: 'submit_memories', input: { add: [{ content: moved, memory_type: 'SEMANTIC' }], supersede: [] } }),
    ]);
    const job = { tenantId: engine.tenantId, agentId: agent, work: 'extract' as const, turnId: due?.turn_id ?? '' };
    const learnt = await extractMemories(engine.context, job, new AbortController().signal);
    assert.deepEqual(learnt, { added: 1, superseded: 0, refused: 0 });
    for (const ends of [
      { valid_to: soon },
      { expires_at: soon },
      { metadata: { user_id: 'ada', subject: 'ferries' } },
    ]) {
      agent = await engine.agent({ memory_config });
      await add(noon, { ...of, ...ends });
      const subject = 'valid_to' in ends || 'expires_at' in ends ? {} : { subject: 'ships' };
      await add(noon, { metadata: { ...of.metadata, ...subject }, memory_type: 'SHORT_TERM', relevance_score: 1 });
      assert.deepEqual([(await consolidate()).merged, (await owners(noon)).length], [0, 2], JSON.stringify(ends));
    }
  });

  it('always has the standing instructions of its user, however many more important ones others have', async () => {
    for (let n = 0; n < 101; n++) {
      await add(`Bob wants sign ${n}.`, { importance: 1, metadata: { user_id: 'bob', profile: true } });
    }
    await add('Ada wants short answers.', { importance: 0.1, metadata: { user_id: 'ada', profile: true } });
    const until = new Date(Date.now() - 1000);
    await add('Ada wants long answers.', { valid_to: until, metadata: { user_id: 'ada', profile: true } });
    assert.deepEqual(await given(await ask('ada', 'hello')), ['Ada wants short answers.']);
  });

  it('is forgotten in runs of long ago, too', async () => {
    await add('The password hint is kiwicanary.', { metadata: { user_id: 'ada' } });
    engine.say([use({ name: 'recall', input: { query: 'What is the hint?' } }), text('I know it.')]);
    const run = await ask('ada', 'What is the password hint?');
    assert.match(JSON.stringify([await given(run), await outputs(run)]), /kiwicanary.*kiwicanary/);
    await ageAccesses(engine, run);
    await maintain(engine.context, 'forget-old');
    const { removed } = await engine.context.db.withTenant(engine.tenantId, (tx) =>
      forgetMemories(tx, engine.caller, { agentId: agent, what: { query: 'kiwicanary' }, dryRun: false }),
    );
    assert.deepEqual(removed, { entries: 1, summaries: 0, archive: 0, events: 1 });
    assert.deepEqual(await tablesWith(engine.context.db, 'kiwicanary'), []);
  });
});
