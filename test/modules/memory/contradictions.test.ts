import assert from 'node:assert/strict';
import { CONSOLIDATION } from '../../../jobs/consolidation.ts';
import type { Tx } from '../../../db/database.ts';
import { lockToForget } from '../../../db/memory-lock.ts';
import { listFragments } from '../../../db/memory-fragments.ts';
import { addMemory, toMemoryRow } from '../../../modules/memory/add-memory.ts';
import { changeMemory } from '../../../modules/memory/change-memory.ts';
import { checkContradictions, resolveMemories } from '../../../modules/memory/contradictions.ts';
import { forgetMemories } from '../../../modules/memory/forget-memories.ts';
import { judgeContradiction } from '../../../modules/memory/judge-contradiction.ts';
import { createSpace, removeFragment, requireFragment } from '../../../modules/memory/spaces.ts';
import { writeToSpace } from '../../../modules/memory/write-fragment.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { tablesWith } from '../../support/find-text.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { subjectOfConflict } from '../../support/queries/approvals.ts';
import { dueChecks, statusesOfMemories } from '../../support/queries/memory.ts';
import { sessionsWaitingIn } from '../../support/queries/postgres.ts';
import { waitUntil } from '../../support/wait-until.ts';

describe('A contradiction that a model is asked about', () => {
  let engine: Engine;
  let agent: string;
  const never = new AbortController().signal;
  const definition = { name: 'a', memory_config: { long_term: { conflict_check: 'model' as const } } };

  before(async () => {
    engine = await openEngine(undefined, { DROVER_EMBEDDING_MODEL: 'off' });
  });
  after(() => engine.close());
  beforeEach(async () => {
    agent = await engine.agent({ memory_config: definition.memory_config });
  });

  const inTenant = <T>(work: Parameters<typeof engine.context.db.withTenant<T>>[1]) =>
    engine.context.db.withTenant(engine.tenantId, work);
  const add = (content: string, how: 'model' | 'rules' = 'model') => inTenant((tx) => addIn(tx, content, how));
  const addIn = async (tx: Tx, content: string, how: 'model' | 'rules') => {
    const from = { tenantId: engine.tenantId, agentId: agent, origin: 'user' as const };
    const { id } = await addMemory(tx, toMemoryRow({ content, memory_type: 'SEMANTIC' }, from));
    const { tenantId, workspaceId } = engine.caller;
    await checkContradictions(tx, {
      tenantId,
      workspaceId,
      agentId: agent,
      definition: { name: 'a', memory_config: { long_term: { conflict_check: how } } },
      by: { tenantId },
      ids: [id],
    });
    return id;
  };
  const check = (subjectId: string) =>
    judgeContradiction(engine.context, { tenantId: engine.tenantId, work: 'check', subjectId }, never);
  const states = () => statusesOfMemories(engine, agent);
  const verdict = (gaps: string[]) =>
    use({ name: 'submit_verdict', input: { meets_criteria: gaps.length === 0, gaps } });

  it('marks both entries after the write, once, and asks a person', async () => {
    engine.say([]);
    const older = await add('Ada goes to work by train each day.');
    const newer = await add('Ada never leaves her house to work each day.');
    assert.equal(engine.model.requests.length, 0, 'no write waits for a model');
    engine.say([verdict([]), verdict([older])]);
    assert.deepEqual(await check(older), { contradicted: 0 });
    assert.deepEqual(await check(newer), { contradicted: 1 });
    assert.deepEqual(await states(), ['disputed', 'disputed']);
    assert.deepEqual(await check(newer), { skipped: 1 });
    assert.equal(await subjectOfConflict(engine, agent), newer);
  });

  /** Forgets what has a word while others wait to change the agent's memory. */
  const forgetMeanwhile = (word: string, others: () => Promise<unknown>) => {
    let met: Promise<unknown> = Promise.resolve();
    const forgotten = inTenant(async (tx) => {
      await lockToForget(tx, agent);
      met = others();
      await waitUntil(
        'others wait',
        async () => (await sessionsWaitingIn(engine.context.db, 'pg_advisory_xact_lock')).length > 0,
      );
      await forgetMemories(tx, engine.caller, { agentId: agent, what: { query: word }, dryRun: false });
    });
    return forgotten.then(() => met);
  };

  it('is none with what is forgotten at that moment, of which nothing is written down', async function () {
    // There one session has all transactions, one after the other.
    if (DOMAIN_MODE === 'embedded') this.skip();
    await add('The office is in Quoktown.');
    await forgetMeanwhile('Quoktown', () => add('The office is in Bergen.', 'rules'));
    assert.deepEqual([await tablesWith(engine.context.db, 'quoktown'), await states()], [[], ['active']]);
    const older = await add('Ada goes to Quoktown by train each day.');
    const newer = await add('Ada never leaves her house at all.');
    engine.say([verdict([older])]);
    await forgetMeanwhile('Quoktown', () => check(newer));
    assert.deepEqual([await tablesWith(engine.context.db, 'quoktown'), await states()], [[], ['active', 'active']]);
    const last = await add('Ada goes to Quoktown by bus at night.');
    engine.say([verdict([newer])]);
    assert.equal((await dueChecks(engine, agent)).length, 1);
    await forgetMeanwhile('Quoktown', () => check(last));
    assert.deepEqual([await tablesWith(engine.context.db, 'quoktown'), await states()], [[], ['active', 'active']]);
  });

  /** Two transactions that write at the same moment: the second one begins when the first has written. */
  const writeBeside = async (first: (tx: Tx) => Promise<unknown>, second: (tx: Tx) => Promise<unknown>) => {
    let isDone = false;
    let beside: Promise<unknown> = Promise.resolve();
    await inTenant(async (tx) => {
      await first(tx);
      beside = inTenant(second).finally(() => (isDone = true));
      const waiting = () => sessionsWaitingIn(engine.context.db, 'pg_advisory_xact_lock');
      await waitUntil('the second waits', async () => isDone || (await waiting()).length > 0);
    });
    await beside;
  };

  it('by rules is found between two that are written at the same moment, entries or fragments', async function () {
    if (DOMAIN_MODE === 'embedded') this.skip();
    const [older, newer] = ['The office is in Oslo.', 'The office is in Bergen.'];
    await writeBeside(
      (tx) => addIn(tx, older, 'rules'),
      (tx) => addIn(tx, newer, 'rules'),
    );
    assert.deepEqual(await states(), ['disputed', 'disputed']);
    const space = await inTenant((tx) => createSpace(tx, engine.caller, { scope: 'team', conflict_check: 'rules' }));
    const write = (data: string) => (tx: Tx) =>
      writeToSpace(tx, engine.caller, { space_id: space.id, content: { type: 'text', data } });
    await writeBeside(write(older), write(newer));
    const fragments = await inTenant((tx) => listFragments(tx, { spaceIds: [space.id], agentId: null, limit: 10 }));
    assert.deepEqual(
      fragments.map(({ requires_resolution: isAsked }) => isAsked),
      [true],
    );
  });

  it('is decided between the two that were asked about alone, as long as both are so', async () => {
    const [older, newer] = [await add('The office is in Oslo.'), await add('The office is in Bergen.')];
    await inTenant((tx) =>
      changeMemory(tx, engine.caller, { agentId: agent, id: older, patch: { status: 'archived' } }),
    );
    const of = { agentId: agent, ids: { older, newer, others: [] }, side: { keep: 'old' as const } };
    await assert.rejects(
      inTenant((tx) => resolveMemories(tx, engine.caller, of)),
      /has changed since/,
    );
    assert.deepEqual(await states(), ['archived', 'active']);
  });

  it('is found by rules where the model gives nothing, and again later where it is away', async () => {
    await add('The office is in Oslo.');
    const newer = await add('The office is in Bergen.');
    engine.say([{ error: { status: 529, type: 'overloaded_error', retryAfter: 60 } }]);
    assert.deepEqual(await check(newer), { later: 1 });
    await engine.gatesOpen();
    await engine.providersBack();
    engine.say([text('no tool'), text('none')]);
    assert.deepEqual(await check(newer), { contradicted: 1 });
  });

  it('puts a fragment into one place with the one that it contradicts', async () => {
    const space = await inTenant((tx) =>
      createSpace(tx, engine.caller, { scope: 'team', conflict_check: 'model', retention_policy: '1 hour' }),
    );
    const write = (data: string) =>
      inTenant((tx) => writeToSpace(tx, engine.caller, { space_id: space.id, content: { type: 'text', data } }));
    const { fragment: older } = await write('The launch of the rocket is on Monday.');
    const { fragment: newer } = await write('The rocket is grounded until the launch of its successor.');
    engine.say([verdict([older.id])]);
    assert.deepEqual(await check(newer.id), { contradicted: 1 });
    const [a, b] = await inTenant(async (tx) => [
      (await requireFragment(tx, engine.caller, { id: older.id })).fragment,
      (await requireFragment(tx, engine.caller, { id: newer.id })).fragment,
    ]);
    assert.deepEqual([a?.version, a?.requires_resolution, b?.provenance['merged_into']], [2, true, older.id]);
    assert.deepEqual(a?.expires_at, newer.expires_at, 'it stays for as long as the newer one');
    assert.notDeepEqual(a?.expires_at, older.expires_at);
    assert.ok(b?.expires_at && b.expires_at <= new Date());
    await inTenant((tx) => removeFragment(tx, engine.caller, older.id));
    assert.deepEqual(await tablesWith(engine.context.db, 'rocket'), []);
  });

  it('is looked for between fragments alone that the same agents see', async () => {
    const space = await inTenant((tx) => createSpace(tx, engine.caller, { scope: 'team', conflict_check: 'model' }));
    const write = (data: string, more: object = {}) =>
      inTenant((tx) =>
        writeToSpace(tx, engine.caller, { space_id: space.id, content: { type: 'text', data }, ...more }),
      );
    await write('The launch of the rocket is on Monday.');
    const { fragment: own } = await write('The rocket is grounded.', { agent_id: 'bob', visibility: 'private' });
    engine.say([]);
    assert.deepEqual(await check(own.id), { contradicted: 0 });
    assert.equal(engine.model.requests.length, 0, 'nobody else is shown it');
  });

  it('has its job sent again where that was lost; entries have none where nothing is embedded', async () => {
    const id = await add('The office is in Oslo.');
    const queue = engine.context.queues.queue(CONSOLIDATION.name);
    await reconcile(engine.context, 0, engine.tenantId);
    assert.ok(await queue.getJob(`check-${id}`));
    assert.equal(await queue.getJob(`embed-${agent}`), undefined);
    await queue.remove(`check-${id}`);
  });
});
