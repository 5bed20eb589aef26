import assert from 'node:assert/strict';
import { embedMemories } from '../../../modules/memory/embed-memories.ts';
import { addMemory, toMemoryRow } from '../../../modules/memory/add-memory.ts';
import { findLike, recall } from '../../../modules/memory/recall.ts';
import { searchSpace } from '../../../modules/memory/search-space.ts';
import { createSpace } from '../../../modules/memory/spaces.ts';
import { writeToSpace } from '../../../modules/memory/write-fragment.ts';
import { startEmbeddingServer, vectorsOf, type EmbeddingServer } from '../../support/embedding-server.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import { memoriesOf } from '../../support/queries/memory.ts';

const MODEL = 'openai/varied';

describe('An embedding server that gives vectors of another length, or none that can be compared', () => {
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
    agent = await engine.agent();
    server.give(vectorsOf(6));
    await add('Ada drinks espresso.');
    await embed();
  });

  const owner = () => ({ tenantId: engine.tenantId, agentId: agent });
  const add = async (content: string) => {
    const row = toMemoryRow({ content, memory_type: 'SEMANTIC' }, { ...owner(), origin: 'user' });
    await engine.context.db.withTenant(engine.tenantId, (tx) => addMemory(tx, row));
  };
  const embed = () => embedMemories(engine.context, owner(), new AbortController().signal);
  const models = async () => (await memoriesOf(engine, agent)).map(({ embedding_model: model }) => model);
  let asked = 0;
  const question = () => ({ text: `Who drinks espresso? ${(asked += 1)}`, at: new Date(), topK: 5, model: MODEL });
  const found = async () => {
    const hits = await recall(engine.context, { ...owner(), operation: 'query' }, question());
    return hits.map(({ entry }) => entry.content);
  };

  for (const [what, vector] of [
    ['a vector of another length', vectorsOf(12)],
    ['a vector that is not a number', () => [1, Number.NaN, 1, 1, 1, 1]],
    ['an empty vector', () => []],
  ] as const)
    it(`finds by words where a question has ${what}`, async () => {
      server.give(vector);
      assert.deepEqual(await found(), ['Ada drinks espresso.']);
      const like = await findLike(
        engine.context,
        { ...owner(), whose: { userId: undefined, isApart: false } },
        question(),
      );
      assert.deepEqual(
        like.map(({ entry }) => entry.content),
        ['Ada drinks espresso.'],
      );
    });

  it('says so where entries are embedded, and is asked again for them when it is well', async () => {
    await add('Bob drinks tea.');
    server.give(vectorsOf(12));
    await assert.rejects(embed(), /gives vectors of 12 numbers, and those that are stored have 6/);
    server.give(vectorsOf(6));
    assert.deepEqual(await embed(), { embedded: 1 });
    assert.deepEqual(await models(), [MODEL, MODEL]);
  });

  it('does not keep one entry without a comparable vector from those of the others', async () => {
    await add('Bob drinks POISON.');
    await add('Cleo drinks water.');
    server.give((text) => (text.includes('POISON') ? vectorsOf(6)(text).fill(Number.NaN) : vectorsOf(6)(text)));
    assert.deepEqual(await embed(), { embedded: 2 });
    assert.deepEqual((await models()).map(String).toSorted(), [`none:${MODEL}`, MODEL, MODEL]);
  });

  it('is searched for by words in a space', async () => {
    const inTenant = <T>(work: Parameters<typeof engine.context.db.withTenant<T>>[1]) =>
      engine.context.db.withTenant(engine.tenantId, work);
    const { id: space } = await inTenant((tx) => createSpace(tx, engine.caller, { scope: 'team' }));
    const content = { type: 'text' as const, data: 'Ada drinks espresso.' };
    await inTenant((tx) => writeToSpace(tx, engine.caller, { space_id: space, content }));
    const search = async () => {
      const of = { spaceId: space, text: question().text, limit: 5, minRelevance: 0.01 };
      return (await searchSpace(engine.context, engine.caller, of)).map(({ fragment }) => fragment.content.data);
    };
    assert.deepEqual(await search(), ['Ada drinks espresso.']);
    server.give(vectorsOf(12));
    assert.deepEqual(await search(), ['Ada drinks espresso.']);
  });
});
