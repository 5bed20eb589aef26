import assert from 'node:assert/strict';
import { embedMemories } from '../../../modules/memory/embed-memories.ts';
import { addMemory, toMemoryRow } from '../../../modules/memory/add-memory.ts';
import { keepEmbeddingSettings } from '../../../modules/memory/keep-embedding-settings.ts';
import { recall } from '../../../modules/memory/recall.ts';
import { searchSpace } from '../../../modules/memory/search-space.ts';
import { createSpace } from '../../../modules/memory/spaces.ts';
import { writeToSpace } from '../../../modules/memory/write-fragment.ts';
import { payForEmbeddings } from '../../../modules/model-calls/pay-for-embeddings.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { storeEmbeddings } from '../../../db/memory-models.ts';
import { createEmbeddings } from '../../../llm/embeddings.ts';
import { startEmbeddingServer, vectorsOf, type EmbeddingServer } from '../../support/embedding-server.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import {
  endEmbeddingSettings,
  forgetRefusers,
  forgetTries,
  memoriesOf,
  modelsOfFragments,
} from '../../support/queries/memory.ts';

const MODEL = 'openai/changing';

describe('A model that is another one now, under its name or in its place', () => {
  let engine: Engine;
  let server: EmbeddingServer;
  let agent: string;
  before(async () => {
    server = await startEmbeddingServer();
    engine = await openEngine(undefined, { DROVER_EMBEDDING_MODEL: MODEL, ...server.env });
  });
  after(async () => {
    await engine.close();
    await server.close();
  });
  beforeEach(async () => {
    await endEmbeddingSettings(engine);
    agent = await engine.agent();
    server.give(vectorsOf(6));
    server.refuse('POISON');
  });

  const owner = () => ({ tenantId: engine.tenantId, agentId: agent });
  const inTenant = <T>(work: Parameters<typeof engine.context.db.withTenant<T>>[1]) =>
    engine.context.db.withTenant(engine.tenantId, work);
  const add = async (content: string): Promise<string> => {
    const row = toMemoryRow({ content, memory_type: 'SEMANTIC' }, { ...owner(), origin: 'user' });
    return (await inTenant((tx) => addMemory(tx, row))).id;
  };
  const embed = async (context: Context = engine.context) =>
    (await embedMemories(context, owner(), new AbortController().signal)).embedded;
  const models = async () => (await memoriesOf(engine, agent)).map(({ embedding_model: model }) => model);
  let asked = 0;
  /** What is found, and how much of it by its meaning. */
  const ask = async (text: string) => {
    const question = { text: `${text} ${(asked += 1)}`, at: new Date(), topK: 5, model: MODEL };
    const hits = await recall(engine.context, { ...owner(), operation: 'query' }, question);
    return hits.map(({ entry, why }) => [entry.content, (why.vector ?? 0) > 0]);
  };
  const asksAgain = async (context: Context = engine.context) => {
    await engine.context.queues.queue('consolidation').remove(`embed-${agent}`);
    await reconcile(context, 0);
    return (await engine.context.queues.queue('consolidation').getJob(`embed-${agent}`)) !== undefined;
  };
  const processWith = (embeddingModel: string): Context => {
    const openai = { apiKey: 'k', baseUrl: server.env.OPENAI_BASE_URL };
    const embeddings = createEmbeddings({ embeddingModel, modelKeys: { openai } }, payForEmbeddings(engine.context));
    return { ...engine.context, embeddings };
  };
  const share = async (...contents: string[]): Promise<string> => {
    const { id: space } = await inTenant((tx) => createSpace(tx, engine.caller, { scope: 'team' }));
    for (const data of contents)
      await inTenant((tx) => writeToSpace(tx, engine.caller, { space_id: space, content: { type: 'text', data } }));
    return space;
  };
  const search = async (space: string, context: Context = engine.context) => {
    const of = { spaceId: space, text: `espresso ${(asked += 1)}`, limit: 5, minRelevance: 0.01 };
    return (await searchSpace(context, engine.caller, of)).map(({ fragment }) => fragment.content.data);
  };

  it('has all vectors of another length made anew, the newest first, once nobody has been given the former ones for a while', async () => {
    for (const name of ['Ada', 'Bob', 'Cleo']) await add(`${name} drinks espresso.`);
    assert.equal(await embed(), 3);
    server.give(vectorsOf(12));
    await add('Dora drinks tea.');
    await assert.rejects(embed(), /gives vectors of 12 numbers, and those that are stored have 6/);
    await endEmbeddingSettings(engine);
    const from = server.asked.length;
    assert.equal(await embed(), 4);
    const texts = [...new Set(server.asked.slice(from))];
    assert.deepEqual(
      texts,
      ['Dora', 'Cleo', 'Bob', 'Ada'].map((name) => `${name} drinks ${name === 'Dora' ? 'tea' : 'espresso'}.`),
    );
    assert.deepEqual(
      await models(),
      Array.from({ length: 4 }, () => `${MODEL}#12`),
    );
    assert.equal(
      (await ask('Who drinks tea?')).every(([, isNear]) => isNear),
      true,
    );
    assert.equal(await embed(), 0);
    server.give(vectorsOf(6));
    await endEmbeddingSettings(engine);
    await add('Eve drinks milk.');
    assert.equal(await embed(), 5);
    assert.deepEqual(
      await models(),
      Array.from({ length: 5 }, () => MODEL),
      'those of before are back',
    );
  });

  it('is known to be by questions alone, where nothing new is remembered', async () => {
    await add('Ada drinks espresso.');
    await embed();
    server.give(vectorsOf(12));
    await endEmbeddingSettings(engine);
    await forgetTries(engine);
    assert.equal(await asksAgain(), false);
    assert.deepEqual(await ask('Who drinks espresso?'), [['Ada drinks espresso.', false]]);
    await keepEmbeddingSettings(engine.context).stop();
    assert.equal(await asksAgain(), true);
    assert.equal(await embed(), 1);
    assert.deepEqual(await ask('Who drinks espresso?'), [['Ada drinks espresso.', true]]);
    assert.equal(await asksAgain(), false);
  });

  it('does not compare a question with vectors of another length meanwhile, whose texts are found by their words', async () => {
    const [old, fresh] = [await add('Ada drinks espresso.'), await add('Bob drinks espresso.')];
    const store = (id: string, name: string, length: number) =>
      inTenant((tx) =>
        storeEmbeddings(tx, {
          ...owner(),
          model: MODEL,
          name,
          wanted: undefined,
          rows: [{ id, vector: JSON.stringify(vectorsOf(length)('x')) }],
        }),
      );
    await store(old, MODEL, 6);
    await store(fresh, `${MODEL}#12`, 12);
    server.give(vectorsOf(12));
    const found = new Map((await ask('Who drinks espresso?')).map(([text, isNear]) => [text, isNear]));
    assert.deepEqual([found.size, found.get('Bob drinks espresso.')], [2, true]);
    const listed = await memoriesOf(engine, agent);
    assert.deepEqual(
      listed.map(({ embedding_model: model }) => model),
      [MODEL, `${MODEL}#12`],
    );
  });

  it('is asked for the texts that the former one refused, and no model twice', async () => {
    const [before, now] = [processWith('openai/before'), processWith('openai/now')];
    await add('POISON is what one model does not take.');
    await add('Ada drinks espresso.');
    assert.equal(await embed(before), 2);
    assert.deepEqual(await models(), ['none:openai/before', 'openai/before']);
    assert.deepEqual([await asksAgain(before), await embed(before)], [false, 0]);
    assert.deepEqual([await asksAgain(now), await embed(now)], [false, 0], 'a process that uses the former one lives');
    await endEmbeddingSettings(engine);
    assert.deepEqual([await asksAgain(now), await embed(now)], [true, 2]);
    assert.deepEqual(await models(), ['none:openai/now', 'openai/now']);
    server.refuse('NOTHING');
    await endEmbeddingSettings(engine);
    assert.deepEqual([await asksAgain(now), await embed(now)], [false, 0]);
    await endEmbeddingSettings(engine);
    assert.deepEqual([await asksAgain(before), await embed(before)], [true, 2]);
    assert.deepEqual(await models(), ['openai/before', 'openai/before']);
  });

  it('is asked for a text whose refusal does not say by which model, as it was stored before', async () => {
    await add('POISON is what one model does not take.');
    assert.equal(await embed(), 1);
    await forgetRefusers(engine);
    assert.deepEqual(await models(), ['none']);
    assert.equal(await embed(), 1);
    assert.deepEqual([await models(), await embed()], [[`none:${MODEL}`], 0]);
  });

  it('is asked for fragments that the former one refused or gave other vectors, when they are searched', async () => {
    const [before, now] = [processWith('openai/before'), processWith('openai/now')];
    const space = await share('POISON is in the espresso.', 'Ada drinks espresso.');
    await search(space, before);
    assert.deepEqual(await modelsOfFragments(engine, space), ['none:openai/before', 'openai/before']);
    await search(space, now);
    assert.deepEqual(await modelsOfFragments(engine, space), ['none:openai/before', 'openai/before']);
    await endEmbeddingSettings(engine);
    server.refuse('NOTHING');
    assert.deepEqual((await search(space, now)).length, 2);
    assert.deepEqual(await modelsOfFragments(engine, space), ['openai/now', 'openai/now']);
    await endEmbeddingSettings(engine);
    server.give(vectorsOf(12));
    assert.deepEqual((await search(space, now)).length, 2, 'found by its words');
    await keepEmbeddingSettings(now).stop();
    await search(space, now);
    assert.deepEqual(await modelsOfFragments(engine, space), ['openai/now#12', 'openai/now#12']);
  });
});
