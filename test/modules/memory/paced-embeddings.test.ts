/** How embeddings of a provider keep to the limits of its credential, and wait while it is away. */
import assert from 'node:assert/strict';
import { DelayedError, type Job } from 'bullmq';
import { addMemory, toMemoryRow } from '../../../modules/memory/add-memory.ts';
import { recall } from '../../../modules/memory/recall.ts';
import { NotSentNow, withinPace } from '../../../modules/model-calls/pace-embeddings.ts';
import { handler } from '../../../workers/handlers/consolidation.ts';
import type { EmbeddingAnswer } from '../../../llm/embed-texts.ts';
import { startEmbeddingServer, type EmbeddingServer } from '../../support/embedding-server.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import { embeddingCalls, forgetOutages, forgetOwnCalls, makeOutagesDue } from '../../support/queries/model-calls.ts';
import { memoriesOf } from '../../support/queries/memory.ts';
import { waitUntil } from '../../support/wait-until.ts';

const MODEL = 'openai/text-embedding-3-small';
const { signal } = new AbortController();

describe('Embeddings of a provider', () => {
  let engine: Engine;
  let server: EmbeddingServer;
  let agent: string;
  let written = 0;

  const open = async (env: Record<string, string>) => {
    server = await startEmbeddingServer();
    engine = await openEngine(undefined, { DROVER_EMBEDDING_MODEL: MODEL, ...server.env, ...env });
  };
  const close = async () => {
    await engine.close();
    await server.close();
  };
  const fresh = async () => {
    await forgetOwnCalls(engine);
    agent = await engine.agent({ memory_config: { long_term: { enabled: true } } });
    server.asked.length = 0;
  };
  const owner = () => ({ tenantId: engine.tenantId, agentId: agent });
  const add = async (content = 'Ada drinks espresso') => {
    const memory = { content: `${content} ${(written += 1)}`, memory_type: 'SEMANTIC' as const };
    const row = toMemoryRow(memory, { ...owner(), origin: 'user' });
    await engine.context.db.withTenant(engine.tenantId, (tx) => addMemory(tx, row));
  };
  const ask = async (text = `What does Ada drink ${(written += 1)}`) => {
    const asked = { text, at: new Date(), topK: 5, model: MODEL };
    return recall(engine.context, { ...owner(), operation: 'query' }, asked);
  };
  const delays: number[] = [];
  /** The job that gives entries their vectors. */
  const work = () => {
    delays.length = 0;
    const job = {
      name: 'consolidation',
      data: { ...owner(), work: 'embed' },
      moveToDelayed: async (at: number) => void delays.push(at - Date.now()),
    } as unknown as Job;
    return handler.handle(engine.context, { job, token: 'x', stop: signal, draining: () => false });
  };
  const states = async () => (await embeddingCalls(engine)).map(({ state, error_code: code }) => [state, code]);

  describe('with a ration', () => {
    before(() => open({ DROVER_MODEL_LIMITS: `${MODEL}=2` }));
    after(close);
    beforeEach(fresh);

    it('take their requests from it: what has no room is not sent, and its job waits and does not fail', async () => {
      await add();
      assert.deepEqual(await work(), { embedded: 1 });
      const [hit] = await ask();
      assert.ok((hit?.why.vector ?? 0) > 0);
      await add();
      await assert.rejects(work(), DelayedError);
      assert.ok(delays.length === 1 && (delays[0] ?? 0) > 10_000, `until there is room: ${delays.join()}`);
      const [byWords] = await ask();
      assert.deepEqual([byWords?.why.vector, server.asked.length], [undefined, 2]);
      assert.deepEqual(await states(), [
        ['estimated', null],
        ['estimated', null],
      ]);
    });
  });

  describe('with a ration of tokens', () => {
    before(() => open({ DROVER_MODEL_LIMITS: `${MODEL}=1000:600` }));
    after(close);
    beforeEach(fresh);

    it('take from it what the provider has counted', async () => {
      server.count(1200);
      await ask();
      await ask();
      assert.equal(server.asked.length, 1);
    });
  });

  describe('that is away', () => {
    before(() => open({}));
    after(close);
    beforeEach(async () => {
      await forgetOutages(engine.context.db);
      server.fail(200);
      await fresh();
    });

    for (const [what, status, headers] of [
      ['is overloaded', 429, { 'retry-after': '60' }],
      ['fails', 503, { 'retry-after': '60' }],
    ] as const) {
      it(`are not asked for again while it ${what}, until one request has been answered`, async () => {
        server.fail(status, headers);
        await add();
        await assert.rejects(work(), new RegExp(`answered ${status}`));
        await ask();
        await assert.rejects(work(), DelayedError);
        assert.ok((delays[0] ?? 0) > 50_000, `as long as it says: ${delays.join()}`);
        assert.equal(server.asked.length, 1);
        server.fail(200);
        await makeOutagesDue(engine);
        const release = server.hold();
        const probing = work();
        await waitUntil('it is asked', () => server.asked.length === 2);
        const [byWords] = await ask();
        assert.equal(byWords?.why.vector, undefined, 'one asks for all');
        release();
        assert.deepEqual(await probing, { embedded: 1 });
        const [hit] = await ask();
        assert.ok((hit?.why.vector ?? 0) > 0);
        const [entry] = await memoriesOf(engine, agent);
        assert.equal(entry?.embedding_model, MODEL);
      });
    }

    it('wait also for one that gives no answer in time', async () => {
      const pace = { rateLimiter: `${MODEL}@${agent}`, rates: null };
      const request = { provider: 'openai', model: MODEL, ...pace, tokens: 6, signal };
      const late = new Error('timed out');
      const answer = { model: undefined, tokens: undefined };
      const sent = (isOverdue: boolean, send: () => Promise<EmbeddingAnswer>) =>
        withinPace(engine.context.db, { ...request, isOverdue: () => isOverdue }, send);
      await assert.rejects(
        sent(false, () => Promise.reject(late)),
        late,
      );
      assert.equal(await sent(false, () => Promise.resolve(answer)), answer);
      await assert.rejects(
        sent(true, () => Promise.reject(late)),
        late,
      );
      await assert.rejects(
        sent(false, () => Promise.resolve(answer)),
        NotSentNow,
      );
      await makeOutagesDue(engine);
      await assert.rejects(
        sent(false, () => Promise.reject(late)),
        late,
      );
      assert.equal(await sent(false, () => Promise.resolve(answer)), answer);
      assert.equal(await sent(false, () => Promise.resolve(answer)), answer);
    });

    it('keep nobody waiting where it refuses the key, the model or a text', async () => {
      for (const status of [401, 404, 400]) {
        server.fail(status);
        await ask();
        await ask();
      }
      // A text that is refused is followed by one that every model takes.
      assert.equal(server.asked.length, 8);
    });
  });
});
