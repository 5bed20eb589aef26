import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { consolidateDue, dispatchConsolidations } from '../../modules/memory/dispatch-consolidations.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { countStatements } from '../support/count-statements.ts';
import { ageAllMemories, ageMemories } from '../support/queries/memory.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('consolidation of /v1/agents/{id}/memory', () => {
  let api: TestApi;
  let agent: string;

  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  const make = async (consolidation: Record<string, unknown> = {}, others: Record<string, unknown> = {}) => {
    const settings = { min_age_hours: 0, importance_threshold: 0.5, max_entry_tokens: 50, ...consolidation };
    const body = { name: `agent ${randomUUID()}`, memory_config: { ...others, consolidation: settings } };
    const { json, status, text } = await api.call('POST', '/v1/agents', { body });
    assert.equal(status, 201, text);
    agent = json.id;
  };
  const path = (rest = '') => `/v1/agents/${agent}/memory${rest}`;
  const add = async (content: string, more: Record<string, unknown> = {}): Promise<string> => {
    const body = { content, memory_type: 'SHORT_TERM', relevance_score: 1, ...more };
    const { json, status, text } = await api.call('POST', path(), { body });
    assert.equal(status, 201, text);
    return json.id;
  };
  const consolidate = async (body: unknown = {}) => {
    const { json, status, text } = await api.call('POST', path('/consolidate'), { body });
    assert.equal(status, 200, text);
    return json;
  };
  const list = async (type: string) =>
    (await api.call('GET', path(`?memory_type=${type}`))).json.entries
      .map(({ content }: { content: string }) => content)
      .toSorted();
  const archived = async () =>
    (await api.call('GET', path('/archive'))).json.entries
      .map(({ content, reason }: { content: string; reason: string }) => `${content},${reason}`)
      .toSorted();
  const everything = async () => ({
    short: await list('SHORT_TERM'),
    episodic: await list('EPISODIC'),
    archive: await archived(),
  });

  const LONG = `${'The project of Ada ships in May and needs a reviewer. '.repeat(20)}Hello there.`;

  it('is done once for an Idempotency-Key, however often it is asked for', async () => {
    await make({ importance_threshold: 0.9, archive_evicted: false });
    for (const name of ['Ada', 'Bob', 'Cem', 'Dan']) await add(`${name} was here.`, { relevance_score: 0 });
    const headers = { 'idempotency-key': randomUUID() };
    const ask = (strategy: string) =>
      api.call('POST', path('/consolidate'), { body: { strategy, max_entries: 2 }, headers });
    const first = await ask('age');
    assert.deepEqual([first.status, first.json.evicted], [200, 2], first.text);
    const again = await ask('age');
    assert.deepEqual([again.json, again.headers.get('idempotent-replayed')], [first.json, 'true']);
    assert.equal((await list('SHORT_TERM')).length, 2);
    assert.equal((await ask('hybrid')).status, 422);
  });

  it('keeps, shortens, merges and evicts, and can be undone', async () => {
    await make();
    await add('Ada lives in Oslo.', { memory_type: 'EPISODIC' });
    await add('Ada lives in Oslo.');
    await add('Ada sails on Sundays.');
    await add(LONG);
    await add('The weather was grey.', { relevance_score: 0 });
    await add('A fact that stays out of it.', { memory_type: 'SEMANTIC', relevance_score: 0 });
    const before = await everything();
    const { consolidation_id: id, ...counts } = await consolidate({ strategy: 'age', max_entries: 50 });
    assert.deepEqual(counts, { consolidated: 2, merged: 1, evicted: 1, procedural: 0 });
    const after = await everything();
    assert.deepEqual(after.short, []);
    assert.equal(after.episodic.length, 3);
    assert.ok(
      after.episodic.some((content: string) => content.length < 250 && content.startsWith('The project of Ada')),
    );
    assert.deepEqual(
      after.archive,
      [
        ['Ada lives in Oslo.', 'merged'],
        ['The weather was grey.', 'evicted'],
        [LONG, 'summarized'],
      ]
        .map(String)
        .toSorted(),
    );
    const { json } = await api.call('GET', path('/consolidations'));
    assert.deepEqual([json.consolidations[0].id, json.consolidations[0].consolidated], [id, 2]);
    const undo = () => api.call('POST', path(`/consolidations/${id}/revert`), {});
    const undone = await undo();
    assert.equal(undone.status, 200, undone.text);
    assert.equal(undone.json.restored, 4);
    assert.deepEqual(await everything(), before);
    assert.deepEqual([(await undo()).status, (await undo()).json.restored], [200, 0]);
    const { json: hit } = await api.call('POST', path('/query'), { body: { query: 'grey weather' } });
    assert.equal(hit.entries.length, 1, 'what is back is found again');
  });

  it('that is undone leaves what has changed since, and else nothing of what it has done', async () => {
    await make();
    const get = async (id: string) => {
      const {
        memory_type: type,
        importance,
        access_count: uses,
        last_accessed: last,
      } = (await api.call('GET', path(`/${id}`))).json;
      return { type, importance, uses, last };
    };
    const short = await add('Bob lives in Bergen.');
    await api.call('POST', path('/query'), { body: { query: 'Bob in Bergen' } });
    const others = [await add('Ada sails on Sundays.'), await add('Eve sings in a choir.')] as const;
    const long = await add('Bob lives in Bergen.', { memory_type: 'EPISODIC' });
    const before = await Promise.all([long, others[0]].map(get));
    const { consolidation_id: id, merged } = await consolidate({ strategy: 'importance' });
    assert.equal(merged, 1);
    const { uses, last } = await get(long);
    assert.deepEqual([uses, last === null], [1, false]);
    await api.call('PATCH', path(`/${others[1]}`), { body: { importance: 0.123 } });
    assert.equal((await api.call('POST', path(`/consolidations/${id}/revert`), {})).json.restored, 3);
    assert.deepEqual(await Promise.all([long, others[0]].map(get)), before);
    assert.deepEqual(await get(others[1]), { type: 'SHORT_TERM', importance: 0.123, uses: 0, last: null });
    assert.deepEqual((await get(short)).last, last);
  });

  it('takes the oldest beyond the token budget, and no more than are asked for', async () => {
    await make({ min_age_hours: 100, max_tokens: 20 });
    for (const day of ['Monday', 'Tuesday', 'Sunday']) await add(`On ${day} the ferry to the island was late again.`);
    assert.equal((await consolidate({ strategy: 'age' })).consolidated, 2);
    assert.deepEqual(await list('SHORT_TERM'), ['On Sunday the ferry to the island was late again.']);
    await make();
    for (const day of ['Monday', 'Tuesday', 'Sunday']) await add(`It rained on ${day}.`);
    assert.equal((await consolidate({ max_entries: 1, strategy: 'importance' })).consolidated, 1);
    assert.equal((await list('SHORT_TERM')).length, 2);
    assert.equal((await consolidate({ max_entries: 1_000_000, strategy: 'importance' })).consolidated, 2);
  });

  it('does nothing where there is nothing, and keeps no archive where none is wanted', async () => {
    await make({ archive_evicted: false });
    assert.deepEqual(await consolidate(), {
      consolidated: 0,
      merged: 0,
      evicted: 0,
      procedural: 0,
      consolidation_id: null,
    });
    await add('The weather was grey.', { relevance_score: 0 });
    const { consolidation_id: id, evicted } = await consolidate();
    assert.equal(evicted, 1);
    assert.deepEqual(await archived(), []);
    assert.equal((await api.call('POST', path(`/consolidations/${id}/revert`), {})).status, 409);
    assert.equal((await api.call('POST', path('/consolidate'), { body: { strategy: 'fifo' } })).status, 400);
    assert.equal((await api.call('POST', path(`/consolidations/${randomUUID()}/revert`), {})).status, 404);
  });

  /** What is written is held against what is there. */
  const COMPARED = { long_term: { enabled: true } };
  const disputes = async () =>
    (await api.call('GET', '/v1/approvals?status=pending')).json.approvals.filter(
      ({ arguments: of }: { arguments: { agent_id?: string } }) => of.agent_id === agent,
    );
  const statusOf = async (id: string) => (await api.call('GET', path(`/${id}`))).json.status;

  it('takes away neither of two that contradict each other while somebody is asked', async () => {
    await make({}, COMPARED);
    const vain = { relevance_score: 0 };
    const [oslo, bergen] = [await add('Ada lives in Oslo.', vain), await add('Ada lives in Bergen.', vain)];
    const { consolidated, evicted } = await consolidate({ strategy: 'importance' });
    assert.deepEqual([consolidated, evicted], [2, 0]);
    assert.deepEqual([await statusOf(oslo), await statusOf(bergen)], ['disputed', 'disputed']);
    const [asked] = await disputes();
    const decided = await api.call('POST', `/v1/approvals/${asked.id}`, { body: { decision: 'approve' } });
    assert.equal(decided.json.decision, 'approve');
    assert.equal(decided.status, 200, decided.text);
    assert.deepEqual([await statusOf(oslo), await statusOf(bergen)], ['superseded', 'active']);
  });

  it('that is undone leaves nothing disputed by what it had made', async () => {
    await make({}, COMPARED);
    // The summary is short enough to be compared; what it is made from says too much.
    const words = Array.from({ length: 70 }, (_, n) => 'xyz'.repeat(n + 1)).join(' ');
    await add(`${'Ada lives in Oslo. '.repeat(20)}${words}.`);
    const { consolidation_id: id } = await consolidate();
    const bergen = await add('Ada lives in Bergen.', { memory_type: 'SEMANTIC' });
    assert.deepEqual([await statusOf(bergen), (await disputes()).length], ['disputed', 1]);
    assert.equal((await api.call('POST', path(`/consolidations/${id}/revert`), {})).json.restored, 1);
    assert.deepEqual([await statusOf(bergen), (await disputes()).length], ['active', 0]);
  });

  it('that is undone holds what comes back against what was written since, and asks once', async () => {
    await make({}, COMPARED);
    const oslo = await add('Ada lives in Oslo.', { relevance_score: 0 });
    const { consolidation_id: id } = await consolidate();
    const bergen = await add('Ada lives in Bergen.', { memory_type: 'SEMANTIC' });
    assert.deepEqual([await statusOf(bergen), (await disputes()).length], ['active', 0]);
    const undo = () => api.call('POST', path(`/consolidations/${id}/revert`), {});
    const undone = await Promise.all([undo(), undo(), undo()]);
    assert.equal(
      undone.reduce((sum, { json }) => sum + json.restored, 0),
      1,
    );
    assert.deepEqual([await statusOf(oslo), await statusOf(bergen)], ['disputed', 'disputed']);
    const asked = await disputes();
    assert.equal(asked.length, 1);
    const { memory_id: about, conflicts_with: other } = asked[0].arguments;
    assert.deepEqual([about, other], [oslo, bergen]);
  });

  it('that is undone holds what comes back against each other, once', async () => {
    await make();
    await add('Ada lives in Oslo.', { relevance_score: 0 });
    await add('Ada lives in Bergen.', { relevance_score: 0 });
    const { consolidation_id: id } = await consolidate();
    const changed = await api.call('PATCH', `/v1/agents/${agent}`, { body: { memory_config: COMPARED } });
    assert.equal(changed.status, 200, changed.text);
    assert.equal((await api.call('POST', path(`/consolidations/${id}/revert`), {})).json.restored, 2);
    assert.equal((await disputes()).length, 1);
  });

  it('that is undone asks the database as often for thirty entries as for three', async () => {
    const statementsFor = async (entries: number) => {
      await make({}, COMPARED);
      for (let n = 0; n < entries; n++) await add(`Nothing but ${'xyz'.repeat(n + 1)} happened here. `.repeat(20));
      const { consolidation_id: id, consolidated } = await consolidate();
      assert.equal(consolidated, entries);
      const counted = countStatements(api.context.db);
      const { json } = await api.call('POST', path(`/consolidations/${id}/revert`), {});
      assert.equal(json.restored, entries);
      return counted.stop();
    };
    assert.equal(await statementsFor(30), await statementsFor(3));
  });

  it('that meets forgetting and corrections lets each of them end, and leaves nothing of what is forgotten', async () => {
    for (let round = 0; round < 3; round++) {
      await make({}, COMPARED);
      const ids: string[] = [];
      for (let n = 0; n < 24; n++) {
        const metadata = { subject: n % 3 === 0 ? 'canary' : 'ferry' };
        const more = { relevance_score: n % 2, metadata };
        ids.push(
          await add(`The ferry ${n % 5 === 0 ? 'again' : 'xyz'.repeat(n)} is late. ${'lorem '.repeat(n)}`, more),
        );
      }
      const patch = (id: string) => api.call('PATCH', path(`/${id}`), { body: { content: `Ferry ${id} is early.` } });
      const forget = (body: object) => api.call('POST', path('/forget'), { body });
      const met = await Promise.all([
        api.call('POST', path('/consolidate'), { body: {} }),
        forget({ subject: 'canary' }),
        ...ids.slice(0, 6).map(patch),
        forget({ ids: ids.slice(3, 9) }),
        api.call('POST', path('/query'), { body: { query: 'late ferry', top_k: 50 } }),
      ]);
      assert.deepEqual(
        met.map(({ status }) => status).filter((status) => ![200, 404, 409].includes(status)),
        [],
      );
      const { json } = await forget({ subject: 'canary', dry_run: true });
      assert.deepEqual(json.ids, []);
    }
  });

  it('gives two that are asked for at once no entry twice', async () => {
    await make();
    for (let n = 0; n < 10; n++) await add(`Fact number ${n} about ferry line ${n}.`);
    const both = await Promise.all([consolidate(), consolidate(), consolidate()]);
    assert.equal(
      both.reduce((sum, { consolidated }) => sum + consolidated, 0),
      10,
    );
    assert.equal((await list('EPISODIC')).length, 10);
  });

  it('comes by itself where the agent wants it, and survives a queue that lost it', async () => {
    await make();
    await add('Ada lives in Oslo.');
    await ageMemories({ ...api, tenantId: DEFAULT_TENANT_ID }, agent);
    const queue = api.context.queues.queue('consolidation');
    await dispatchConsolidations(api.context);
    await queue.obliterate({ force: true });
    await dispatchConsolidations(api.context);
    assert.ok(await queue.getJob(`consolidate-${agent}`));
    await consolidateDue(api.context, { tenantId: DEFAULT_TENANT_ID, agentId: agent }, new AbortController().signal);
    assert.deepEqual([await list('SHORT_TERM'), await list('EPISODIC')], [[], ['Ada lives in Oslo.']]);
  });

  it('comes for so many agents of a tenant at a time, each tenant in its turn, and for all of them in time', async () => {
    const tenant = await api.newTenant();
    const short = { content: 'Ada lives in Oslo.', memory_type: 'SHORT_TERM' };
    const due = async (key: string) => {
      const { json } = await api.call('POST', '/v1/agents', { key, body: { name: `agent ${randomUUID()}` } });
      assert.equal((await api.call('POST', `/v1/agents/${json.id}/memory`, { key, body: short })).status, 201);
      return `consolidate-${json.id}`;
    };
    const many = await Promise.all(Array.from({ length: 6 }, () => due(api.key)));
    const other = await due(tenant.key);
    for (const id of [DEFAULT_TENANT_ID, tenant.id]) {
      await ageAllMemories({ context: api.context, tenantId: id });
    }
    const queue = api.context.queues.queue('consolidation');
    const tick = async (most: { ofTenant: number; ofAll: number }) => {
      await queue.obliterate({ force: true });
      const sent = await dispatchConsolidations(api.context, most);
      const jobs = await Promise.all([...many, other].map((id) => queue.getJob(id)));
      return { sent, ids: jobs.flatMap((job) => job?.id ?? []) };
    };
    const one = await tick({ ofTenant: 2, ofAll: 100 });
    assert.deepEqual([one.sent, one.ids.includes(other)], [3, true]);
    assert.deepEqual((await tick({ ofTenant: 5, ofAll: 2 })).ids.includes(other), true);
    const seen = new Set<string>();
    await waitUntil('every agent has had its turn', async () => {
      for (const id of (await tick({ ofTenant: 3, ofAll: 100 })).ids) seen.add(id);
      return seen.size === many.length + 1;
    });
  });

  it('forgets with an entry the summary that was made from it, and its archive', async () => {
    await make();
    const id = await add(`${LONG} The canary.`);
    await consolidate();
    const { json } = await api.call('POST', path('/forget'), { body: { ids: [id] } });
    assert.deepEqual(json.removed, { entries: 0, summaries: 1, archive: 1, events: 0 });
    assert.deepEqual(await everything(), { short: [], episodic: [], archive: [] });
  });
});
