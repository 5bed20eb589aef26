import assert from 'node:assert/strict';
import { LIMITS } from '../../../core/limits.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { updateAgent } from '../../../modules/agents/update-agent.ts';
import { addMemory, embedSoon, toMemoryRow } from '../../../modules/memory/add-memory.ts';
import { CONSOLIDATION } from '../../../jobs/consolidation.ts';
import { embedFragments } from '../../../modules/memory/embed-fragments.ts';
import { embedMemories } from '../../../modules/memory/embed-memories.ts';
import { keepEmbeddingSettings } from '../../../modules/memory/keep-embedding-settings.ts';
import { searchSpace } from '../../../modules/memory/search-space.ts';
import { createSpace } from '../../../modules/memory/spaces.ts';
import { writeToSpace } from '../../../modules/memory/write-fragment.ts';
import { payForEmbeddings } from '../../../modules/model-calls/pay-for-embeddings.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import type { Database } from '../../../db/database.ts';
import { noteEmbeddingSettings } from '../../../db/memory-models.ts';
import { listLostMemoryWork } from '../../../db/memory-work.ts';
import { newId } from '../../../lib/new-id.ts';
import { createEmbeddings } from '../../../llm/embeddings.ts';
import { startWorkers } from '../../../workers/start-workers.ts';
import type { TestApi } from '../../support/api.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import { startEmbeddingServer, type EmbeddingServer } from '../../support/embedding-server.ts';
import {
  addFragmentVectors,
  addVectors,
  endEmbeddingSettings,
  forgetTries,
  memoriesOf,
  modelsOfFragments,
} from '../../support/queries/memory.ts';
import { explaining } from '../../support/queries/postgres.ts';
import { startTestService } from '../../support/service.ts';
import { waitUntil } from '../../support/wait-until.ts';

const FIRST_ID = '00000000-0000-0000-0000-000000000000';
const SMALL = 'openai/small';

describe('An agent whose embedding model is another one now', () => {
  let api: TestApi;
  let server: EmbeddingServer;
  before(async () => {
    server = await startEmbeddingServer();
    api = await startTestService({ env: { DROVER_EMBEDDING_MODEL: 'offline', ...server.env } });
  });
  after(async () => {
    await api.close();
    await server.close();
  });

  it('has its memories embedded anew at once, and meanwhile finds them by their words', async () => {
    const { id: agent } = (await api.call('POST', '/v1/agents', { body: { name: 'a' } })).json;
    const path = `/v1/agents/${agent}/memory`;
    const body = { content: 'Ada drinks espresso in the morning.', memory_type: 'SEMANTIC' };
    const { id } = (await api.call('POST', path, { body })).json;
    const modelOf = async () => (await api.call('GET', `${path}/${id}`)).json.embedding_model;
    await waitUntil('the entry has its vector', async () => (await modelOf()) === 'offline');
    const release = server.hold();
    const memoryConfig = { long_term: { embedding_model: 'small' } };
    const changed = await api.call('PATCH', `/v1/agents/${agent}`, { body: { memory_config: memoryConfig } });
    assert.equal(changed.status, 200, changed.text);
    await waitUntil('the new model is asked for the entry', () => server.asked.includes(body.content));
    const job = await api.context.queues.queue('consolidation').getJob(`embed-${agent}`);
    assert.equal(job?.opts.delay, LIMITS.memoryPauseMs, 'the job is not one of reconciliation');
    const hits = (await api.call('POST', `${path}/query`, { body: { query: 'Who drinks espresso?' } })).json.entries;
    assert.deepEqual([hits[0]?.id, hits[0]?.embedding_model], [id, 'offline']);
    release();
    await waitUntil('the entry has the vector of the new model', async () => (await modelOf()) === SMALL);
  });
});

describe('Processes that embed with different models', () => {
  let engine: Engine;
  let server: EmbeddingServer;
  let agent: string;
  before(async () => {
    server = await startEmbeddingServer();
    engine = await openEngine();
  });
  after(async () => {
    await engine.close();
    await server.close();
  });
  beforeEach(async () => {
    await endEmbeddingSettings(engine);
    agent = await engine.agent({});
    await add('Ada lives in Oslo.');
    await add('Ben lives in Rome.');
  });

  const add = (content: string) => {
    const from = { tenantId: engine.tenantId, agentId: agent, origin: 'user' as const };
    const row = toMemoryRow({ content, memory_type: 'SEMANTIC' }, from);
    return engine.context.db.withTenant(engine.tenantId, (tx) => addMemory(tx, row));
  };
  /** A process with this model of its own on the same database and queue. */
  const processWith = (embeddingModel: string, hasKey = true): Context => {
    const openai = { apiKey: 'k', baseUrl: server.env.OPENAI_BASE_URL };
    const embeddings = createEmbeddings(
      { embeddingModel, modelKeys: hasKey ? { openai } : {} },
      payForEmbeddings(engine.context),
    );
    return { ...engine.context, embeddings };
  };
  const embed = async (context: Context) => {
    const owner = { tenantId: engine.tenantId, agentId: agent };
    return (await embedMemories(context, owner, new AbortController().signal)).embedded;
  };
  /** Whether reconciliation asks for the agent's vectors. */
  const asksAgain = async (context: Context) => {
    await engine.context.queues.queue('consolidation').remove(`embed-${agent}`);
    await reconcile(context, 0);
    return (await engine.context.queues.queue('consolidation').getJob(`embed-${agent}`)) !== undefined;
  };
  const models = async () => (await memoriesOf(engine, agent)).map((entry) => entry.embedding_model);

  it('embed anew by themselves, once, what is of a model that nobody uses any more', async () => {
    const [before, now] = [processWith('openai/before'), processWith('openai/now')];
    assert.deepEqual([await asksAgain(before), await embed(before)], [true, 2]);
    assert.equal(await asksAgain(before), false);
    await endEmbeddingSettings(engine);
    assert.deepEqual([await asksAgain(now), await embed(now)], [true, 2]);
    assert.deepEqual(await models(), ['openai/now', 'openai/now']);
    assert.deepEqual([await asksAgain(now), await embed(now)], [false, 0]);
  });

  it('embed at once also what comes while a job ends, so that its own is not taken', async () => {
    const context = processWith('openai/now');
    const owner = { tenantId: engine.tenantId, agentId: agent };
    let comes = async () => {
      comes = async () => undefined;
      await add('Cleo lives in Lima.');
      embedSoon(context, owner);
      await context.outbox.close();
    };
    // What the job reads last.
    const db = Object.create(context.db) as Database;
    db.withTenant = async (tenant, work) => {
      const done = await context.db.withTenant(tenant, work);
      const isNothingLeft = (done as { rows?: unknown[] } | undefined)?.rows?.length === 0;
      if (isNothingLeft) await comes();
      return done;
    };
    const workers = await startWorkers({ ...context, db, config: { ...context.config, queues: ['consolidation'] } });
    try {
      embedSoon(context, owner);
      const expected = ['openai/now', 'openai/now', 'openai/now'];
      await waitUntil('all are embedded', async () => (await models()).join() === expected.join());
    } finally {
      await workers.stop(5000);
    }
  });

  it('leave each other’s vectors alone', async () => {
    const [one, other] = [processWith('openai/one'), processWith('openai/other')];
    await embed(one);
    assert.deepEqual([await asksAgain(other), await embed(other)], [false, 0]);
    await add('Cleo lives in Lima.');
    assert.equal(await embed(other), 1);
    assert.deepEqual([await asksAgain(one), await embed(one)], [false, 0]);
    assert.deepEqual(await models(), ['openai/one', 'openai/one', 'openai/other']);
  });

  it('give way to those that can ask the model which an agent names', async () => {
    const [keyless, keyed] = [processWith('offline', false), processWith('openai/other')];
    const long_term = { embedding_model: 'named' };
    await engine.context.db.withTenant(engine.tenantId, (tx) =>
      updateAgent(tx, engine.caller, { id: agent, patch: { memory_config: { long_term } } }),
    );
    assert.equal(await embed(keyless), 2);
    await keyless.embeddings.close();
    assert.deepEqual([await asksAgain(keyed), await embed(keyed)], [true, 2]);
    assert.deepEqual([await asksAgain(keyless), await embed(keyless)], [false, 0]);
    assert.deepEqual(await models(), ['openai/named', 'openai/named']);
  });

  it('ask again for what has failed, but not at every look', async () => {
    await embed(processWith('openai/before'));
    await endEmbeddingSettings(engine);
    const refused = processWith('openai/refused');
    assert.equal(await asksAgain(refused), true);
    await assert.rejects(embed(refused), /answered 400/);
    assert.equal(await asksAgain(refused), false);
    await forgetTries(engine);
    assert.equal(await asksAgain(refused), true);
  });

  const shareWith = async (content: string): Promise<string> =>
    engine.context.db.withTenant(engine.tenantId, async (tx) => {
      const { id } = await createSpace(tx, engine.caller, { scope: 'global' });
      await writeToSpace(tx, engine.caller, { space_id: id, content: { type: 'text', data: content } });
      return id;
    });

  it('do the same with fragments of spaces, when they are searched', async () => {
    const [before, now] = [processWith('openai/before'), processWith('openai/now')];
    const space = await shareWith('Ada lives in Oslo.');
    const search = (context: Context) =>
      searchSpace(context, engine.caller, { spaceId: space, text: 'x', limit: 5, minRelevance: 0, agentId: null });
    await search(before);
    await search(now);
    assert.deepEqual(await modelsOfFragments(engine, space), ['openai/before']);
    await endEmbeddingSettings(engine);
    const [hit] = await search(now);
    assert.deepEqual(await modelsOfFragments(engine, space), ['openai/now']);
    assert.ok((hit?.relevance ?? 0) > 0, 'it is found by its meaning');
  });

  it('leave fragments alone while a process lives that has made their vectors, though it makes none now', async () => {
    const [one, other] = [processWith('openai/one'), processWith('openai/other')];
    const space = await shareWith('Ada lives in Oslo.');
    const search = (context: Context) =>
      searchSpace(context, engine.caller, { spaceId: space, text: 'x', limit: 5, minRelevance: 0, agentId: null });
    await search(one);
    await endEmbeddingSettings(engine);
    const kept = keepEmbeddingSettings(one, 20);
    const isKnown = async () =>
      (await noteEmbeddingSettings(engine.context.db, other.embeddings.settings, 60_000)).some(
        ({ model }) => model === 'openai/one',
      );
    try {
      await waitUntil('it says how it embeds', isKnown);
      await endEmbeddingSettings(engine);
      await waitUntil('it says so again', isKnown);
      await search(other);
      assert.deepEqual(await modelsOfFragments(engine, space), ['openai/one']);
    } finally {
      await kept.stop();
    }
  });

  it('give fragments their vectors whose job was lost', async () => {
    const space = await shareWith('Ada lives in Oslo.');
    const context = processWith('openai/now');
    const job = () => engine.context.queues.queue('consolidation').getJob(`embed_fragments-${space}`);
    await reconcile(context, 0);
    assert.deepEqual((await job())?.data, { tenantId: engine.tenantId, spaceId: space, work: 'embed_fragments' });
    await (await job())?.remove();
    const of = { tenantId: engine.tenantId, spaceId: space };
    assert.deepEqual(await embedFragments(context, of, new AbortController().signal), { embedded: 1 });
    await reconcile(context, 0);
    assert.equal(await job(), undefined);
  });

  it('give fragments their vectors by a job that has the space in place of an agent, as it was sent before', async () => {
    const space = await shareWith('Ada lives in Oslo.');
    const old = { tenantId: engine.tenantId, agentId: space, work: 'embed_fragments' };
    const data = CONSOLIDATION.schema.parse(old);
    assert.deepEqual(data, { tenantId: engine.tenantId, spaceId: space, work: 'embed_fragments' });
    assert.equal(CONSOLIDATION.id(data), `embed_fragments-${space}`, 'sent in both ways it is one job');
  });

  it('find what is to be embedded without reading all entries', async () => {
    for (const of of [1, 2, 3])
      await addVectors(engine, newId(), { model: `openai/${of}`, thread: 't', away: 0.5, count: 2000 });
    const crowd = { model: 'openai/1', word: 'crowd', denied: [], away: 0.5, count: 2000 };
    await addFragmentVectors(engine, await shareWith('Ada lives in Oslo.'), crowd);
    const { db } = engine.context;
    let plan = '';
    const tell = (part: string): void => {
      plan += part;
    };
    const explained: Database = { ...db, asMaintenance: (act) => db.asMaintenance((tx) => act(explaining(tx, tell))) };
    const replaced = [{ wanted: '', model: 'openai/1' }];
    await listLostMemoryWork(explained, { quietMs: 0, after: FIRST_ID, limit: 500, embeds: true, replaced });
    assert.match(plan, /memory_entries_unembedded/);
    assert.match(plan, /memory_fragments_unembedded/);
    assert.doesNotMatch(plan, /Seq Scan on memory_(entries|fragments)/);
  });
});
