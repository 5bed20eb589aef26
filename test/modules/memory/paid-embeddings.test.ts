/** What embeddings of a provider cost: seen in the sums, and held by budgets. */
import assert from 'node:assert/strict';
import { DelayedError, type Job } from 'bullmq';
import type { RunBudget } from '../../../core/budget.ts';
import { LIMITS } from '../../../core/limits.ts';
import { discoverAgents } from '../../../modules/agents/discover-agents.ts';
import { findBudgetDrift, settleBudgets } from '../../../modules/budgets/settle-budgets.ts';
import { createBudget } from '../../../modules/budgets/write-budget.ts';
import { readOwnSums } from '../../../modules/dashboard/read-dashboard.ts';
import { addMemory, toMemoryRow } from '../../../modules/memory/add-memory.ts';
import { embedFragments } from '../../../modules/memory/embed-fragments.ts';
import { embedMemories } from '../../../modules/memory/embed-memories.ts';
import { readUsageOfMemory } from '../../../modules/memory/read-reports.ts';
import { payForEmbeddings } from '../../../modules/model-calls/pay-for-embeddings.ts';
import { recall } from '../../../modules/memory/recall.ts';
import { searchSpace } from '../../../modules/memory/search-space.ts';
import { createSpace } from '../../../modules/memory/spaces.ts';
import { writeToSpace } from '../../../modules/memory/write-fragment.ts';
import { handler } from '../../../workers/handlers/consolidation.ts';
import { startEmbeddingServer, type EmbeddingServer } from '../../support/embedding-server.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { reservationsOfRun, removeBudgets, spendingOfBudget } from '../../support/queries/budgets.ts';
import { memoriesOf } from '../../support/queries/memory.ts';
import { embeddingCalls, forgetOwnCalls } from '../../support/queries/model-calls.ts';
import { storedRun } from '../../support/queries/runs.ts';
import { waitUntil } from '../../support/wait-until.ts';

const MODEL = 'openai/text-embedding-3-small';
const { signal } = new AbortController();

const UNLIMITED = { rateLimiter: null, rates: null, isOverdue: () => false };

describe('Embeddings of a provider', () => {
  let engine: Engine;
  let server: EmbeddingServer;
  let agent: string;
  before(async () => {
    server = await startEmbeddingServer();
    engine = await openEngine(undefined, { DROVER_EMBEDDING_MODEL: MODEL, ...server.env });
    server.refuse('POISON');
  });
  after(async () => {
    await engine.close();
    await server.close();
  });
  beforeEach(async () => {
    await forgetOwnCalls(engine);
    engine.context.budgets.forget(engine.tenantId);
    server.count(1000);
    agent = await engine.agent({ memory_config: { long_term: { enabled: true } } });
  });

  const owner = () => ({ tenantId: engine.tenantId, agentId: agent });
  const inTenant = <T>(work: Parameters<typeof engine.context.db.withTenant<T>>[1]) =>
    engine.context.db.withTenant(engine.tenantId, work);
  let written = 0;
  /** Adds another text each time, as the vectors of the same one are known. */
  const add = async (content = 'Ada drinks espresso'): Promise<void> => {
    const memory = { content: `${content} ${(written += 1)}`, memory_type: 'SEMANTIC' as const };
    await inTenant((tx) => addMemory(tx, toMemoryRow(memory, { ...owner(), origin: 'user' })));
  };
  const embed = async () => (await embedMemories(engine.context, owner(), signal)).embedded;
  const ask = async (question = `What does Ada drink ${(written += 1)}`, model = MODEL) => {
    const asked = { text: question, at: new Date(), topK: 5, model };
    return recall(engine.context, { ...owner(), operation: 'query' }, asked);
  };
  const share = async (data: string): Promise<string> => {
    const { id } = await inTenant((tx) => createSpace(tx, engine.caller, { scope: 'team' }));
    await inTenant((tx) => writeToSpace(tx, engine.caller, { space_id: id, content: { type: 'text', data } }));
    return id;
  };
  const calls = () => embeddingCalls(engine);
  const states = async () => (await calls()).map(({ purpose, state, reserved }) => [purpose, state, reserved]);
  const limit = async (limits: { max_tokens?: number; max_cost_usd?: number }): Promise<string> => {
    const { id } = await inTenant((tx) => createBudget(tx, engine.caller, { period: 'total', ...limits }));
    engine.context.budgets.forget(engine.tenantId);
    return id;
  };
  const today = () => new Date().toISOString().slice(0, 10);

  it('are recorded, a request at a time, as the provider has counted them, with their price', async () => {
    await add();
    await add();
    assert.equal(await embed(), 2);
    const made = { purpose: 'memory_embeddings', model: 'text-embedding-3-small', agent_id: agent, run_id: null };
    const used = { state: 'settled', tokens_in: 1000, cost_usd: '0.00002', error_code: null };
    assert.deepEqual(await calls(), [{ ...made, ...used, tokens: 1000, reserved: 'settled' }]);
    assert.deepEqual(await findBudgetDrift(engine.context.db), []);
  });

  it('are recorded for questions, and for nothing that is known already', async () => {
    await ask('Who drinks espresso?');
    await ask('Who drinks espresso?');
    assert.deepEqual(await states(), [['recall_embeddings', 'settled', 'settled']]);
  });

  it('are estimated where the provider does not count, or counts nothing', async () => {
    for (const tokens of [undefined, 0]) {
      server.count(tokens);
      await ask();
    }
    const shown = (await calls()).map(({ state, tokens_in: used }) => [state, used]);
    assert.deepEqual(shown, [
      ['estimated', 6],
      ['estimated', 6],
    ]);
  });

  it('are paid for at the price of the dearer model where the provider names another one, and at none where none is known', async () => {
    server.count(1000, 'text-embedding-3-large');
    await ask();
    server.count(1000, 'mine');
    await ask();
    await ask('And now?', 'openai/unknown');
    assert.deepEqual(
      (await calls()).map(({ cost_usd: cost }) => cost),
      ['0.00013', '0.00002', null],
    );
  });

  it('are in the sums of the memory and of the dashboard', async () => {
    await add();
    await embed();
    await ask();
    const { model_calls: ofMemory } = await inTenant((tx) => readUsageOfMemory(tx, engine.caller, agent));
    const range = { from: today(), to: '2999-01-01', agentId: agent };
    const own = await inTenant((tx) => readOwnSums(tx, engine.caller, range));
    const expected = { calls: 1, tokens_in: 1000, tokens_out: 0, cost_usd: '0.00002', unpriced: 0 };
    const both = ['memory_embeddings', 'recall_embeddings'].map((purpose) => ({ purpose, ...expected }));
    assert.deepEqual([ofMemory, own], [both, both]);
  });

  it('are recorded for spaces, skills and worked examples, too', async () => {
    const space = await share(`Bob drinks tea ${(written += 1)}`);
    await embedFragments(engine.context, { tenantId: engine.tenantId, spaceId: space }, signal);
    const query = { spaceId: space, text: `Who drinks tea ${(written += 1)}?`, limit: 5, minRelevance: 0 };
    await searchSpace(engine.context, engine.caller, query);
    await discoverAgents(engine.context, engine.caller, { capabilities: [`brewing_${(written += 1)}`], limit: 5 });
    const examples = Array.from({ length: LIMITS.examplesShown + 1 }, (_, n) => ({
      question: `Question ${n} ${(written += 1)}`,
      steps: [],
      answer: 'Done.',
    }));
    agent = await engine.agent({ system_prompt: { role: 'A waiter', examples } });
    engine.say(() => text('noted'));
    await engine.finish((await engine.start(agent, 'Tea, please')).run);
    await waitUntil('the examples have been asked for', async () => (await calls()).length === 4);
    assert.deepEqual(
      (await calls()).map(({ purpose, agent_id: of }) => [purpose, of]),
      [
        ['memory_embeddings', null],
        ['recall_embeddings', null],
        ['skill_embeddings', null],
        ['example_embeddings', agent],
      ],
    );
  });

  it('count in the budgets of the tenant, which refuse those that do not fit: recall then goes by words', async () => {
    await add();
    const budget = await limit({ max_cost_usd: 0.00003 });
    await embed();
    assert.deepEqual(await spendingOfBudget(engine, budget), { tokens: '1000', cost_usd: '0.00002', open_tokens: '0' });
    server.count(900);
    await ask();
    const asked = server.asked.length;
    const long = `Does Ada drink ${'espresso and '.repeat(300)} tea?`;
    const [hit] = await ask(long);
    assert.deepEqual([hit?.why.vector, server.asked.length], [undefined, asked]);
    const refused = (await calls()).at(-1);
    assert.deepEqual([refused?.state, refused?.reserved, refused?.error_code], ['released', 'released', 'budget']);
  });

  it('are made later of memories that a budget leaves none for, whose job waits a minute and does not fail', async () => {
    await add();
    const budget = await limit({ max_tokens: 1 });
    const delays: number[] = [];
    const job = {
      name: 'consolidation',
      data: { ...owner(), work: 'embed' },
      moveToDelayed: async (at: number) => void delays.push(at - Date.now()),
    } as unknown as Job;
    const held = { job, token: 'x', stop: signal, draining: () => false };
    await assert.rejects(handler.handle(engine.context, held), DelayedError);
    assert.ok(delays.length === 1 && (delays[0] ?? 0) > 50_000, 'a minute');
    const [entry] = await memoriesOf(engine, agent);
    assert.equal(entry?.embedding_model, null);
    await removeBudgets(engine);
    assert.ok(budget);
    engine.context.budgets.forget(engine.tenantId);
    assert.deepEqual(await handler.handle(engine.context, held), { embedded: 1 });
  });

  it('are settled as estimated where their process has died, until the answer comes all the same', async () => {
    await add();
    const release = server.hold();
    const embedding = embed();
    await waitUntil('it is under way', async () => (await states()).length === 1);
    assert.deepEqual(await states(), [['memory_embeddings', 'open', 'open']]);
    await engine.everyoneDies();
    await settleBudgets(engine.context);
    assert.deepEqual(await states(), [['memory_embeddings', 'estimated', 'estimated']]);
    release();
    assert.equal(await embedding, 1);
    assert.equal((await states())[0]?.[1], 'settled');
  });

  it('are settled as estimated where nobody waits for the answer any longer', async () => {
    await add('Ada drinks tea');
    const release = server.hold();
    const before = server.asked.length;
    const leaving = new AbortController();
    const embedding = embedMemories(engine.context, owner(), leaving.signal);
    // Before it is sent, it would be given back.
    await waitUntil('the provider has it', () => server.asked.length > before);
    leaving.abort();
    await assert.rejects(embedding);
    release();
    const [call] = await calls();
    assert.deepEqual([call?.state, call?.reserved, call?.error_code], ['estimated', 'estimated', 'aborted']);
    assert.ok(call?.tokens_in === call?.tokens && (call?.tokens ?? 0) > 0);
  });

  it('hold their lease until they are settled, and not beyond', async () => {
    const { db, config } = engine.context;
    const payer = { ...owner(), purpose: 'recall_embeddings' as const };
    const request = { provider: 'openai', model: 'text-embedding-3-small', ...UNLIMITED, tokens: 6, signal };
    /** Counts the renewals of a lease of 150 ms. */
    const pay = async (send: (renewals: () => number) => Promise<unknown>) => {
      let renewals = 0;
      const withTenantOnce: typeof db.withTenantOnce = (tenant, work) =>
        db.withTenantOnce(tenant, (tx) => {
          const query: typeof tx.query = (sql, values) => {
            if (sql.includes('set lease_expires_at')) renewals += 1;
            return tx.query(sql, values);
          };
          return work({ ...tx, query });
        });
      const context = { ...engine.context, config: { ...config, leaseMs: 150 }, db: { ...db, withTenantOnce } };
      await payForEmbeddings(context)(payer, request, async () => {
        await send(() => renewals);
        return { model: undefined, tokens: 6 };
      });
      return () => renewals;
    };
    const ofFirst = await pay(() => Promise.resolve());
    const before = ofFirst();
    await pay((renewals) => waitUntil('its lease is renewed again and again', () => renewals() >= 6));
    // One may have been under way.
    assert.ok(ofFirst() < before + 3, `${ofFirst() - before} more`);
  });

  it('are given back at once, and not asked for, where nobody can say whether a budget has room for them', async () => {
    await limit({ max_tokens: 100_000 });
    const { db } = engine.context;
    const gone = Object.assign(new Error('gone'), { code: 'ECONNRESET' });
    const pay = payForEmbeddings({ ...engine.context, db: { ...db, call: () => Promise.reject(gone) } });
    let sent = 0;
    const send = async () => {
      sent += 1;
      return { model: undefined, tokens: undefined };
    };
    const request = { provider: 'openai', model: 'text-embedding-3-small', ...UNLIMITED, tokens: 6, signal };
    await assert.rejects(pay({ ...owner(), purpose: 'recall_embeddings' }, request, send), gone);
    assert.equal(sent, 0);
    assert.deepEqual(await states(), [['recall_embeddings', 'released', 'released']]);
    await removeBudgets(engine);
  });

  it('cost nothing where the provider refuses them', async () => {
    await add('POISON');
    await add();
    await embed();
    assert.deepEqual(
      (await calls()).map(({ state, reserved, tokens }) => [state, reserved, tokens]),
      [
        ['released', 'released', 0],
        ['released', 'released', 0],
        ['settled', 'settled', 1000],
      ],
    );
  });

  describe('for a run', () => {
    const run = async (budget: RunBudget) => {
      engine.say((request, n) =>
        n === 0 ? use({ name: offered(request, 'recall'), input: { query: `tea ${(written += 1)}` } }) : text('Tea.'),
      );
      agent = await engine.agent({ tools: ['recall'], memory_config: { long_term: { enabled: true } } });
      const started = await engine.start(agent, `What do I drink ${(written += 1)}?`, { config: { budget } });
      await engine.finish(started.run);
      return started.run;
    };

    it('count in the tokens of its budget, and are no steps', async () => {
      const of = await run({ max_steps: 2, max_tokens: 100_000 });
      assert.equal((await storedRun(engine, of)).status, 'completed');
      assert.deepEqual(
        (await calls()).map(({ purpose, state, run_id: id }) => [purpose, state, id]),
        [
          ['recall_embeddings', 'settled', of],
          ['recall_embeddings', 'settled', of],
        ],
      );
      assert.deepEqual(
        (await reservationsOfRun(engine, of)).map(({ state }) => state),
        ['settled', 'settled'],
      );
      const own = await inTenant((tx) => readOwnSums(tx, engine.caller, { from: today(), to: '2999-01-01' }));
      assert.deepEqual(
        own.map(({ purpose, calls: count }) => [purpose, count]),
        [['recall_embeddings', 2]],
      );
    });

    it('are made where the steps of its budget are used up', async () => {
      const of = await run({ max_steps: 1 });
      assert.equal((await storedRun(engine, of)).stop_reason, 'budget');
      assert.deepEqual(
        (await calls()).map(({ state }) => state),
        ['settled', 'settled'],
      );
    });

    it('do not fail it where its budget has nothing left for them', async () => {
      const of = await run({ max_tokens: 1 });
      assert.deepEqual((await storedRun(engine, of)).stop_reason, 'budget');
      assert.deepEqual(await states(), [['recall_embeddings', 'released', 'released']]);
    });
  });
});
