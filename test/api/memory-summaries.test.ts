import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { consolidateDue } from '../../modules/memory/dispatch-consolidations.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { joinSummaries, setVectors } from '../support/queries/memory.ts';

describe('What consolidation makes of a memory', () => {
  let api: TestApi;
  let agent: string;

  const make = async (memory_config: object): Promise<void> => {
    agent = (await api.call('POST', '/v1/agents', { body: { name: `agent ${randomUUID()}`, memory_config } })).json.id;
  };
  before(async () => {
    api = await startTestApi(undefined, { env: { DROVER_EMBEDDING_MODEL: 'off' } });
  });
  after(() => api.close());
  beforeEach(() => make({ consolidation: { min_age_hours: 0, importance_threshold: 0.1, max_entry_tokens: 30 } }));

  const path = (rest = '') => `/v1/agents/${agent}/memory${rest}`;
  const done = async (method: string, rest: string, body?: unknown) => {
    const { status, json, text } = await api.call(method, path(rest), body === undefined ? {} : { body });
    assert.ok(status < 300, text);
    return json;
  };
  const add = async (content: string, more: object = {}): Promise<string> =>
    (await done('POST', '', { content, memory_type: 'SHORT_TERM', relevance_score: 1, ...more })).id;
  const consolidate = () => done('POST', '/consolidate', { strategy: 'importance' });
  const episodic = async () => (await done('GET', '?memory_type=EPISODIC')).entries;
  const contents = async (type: string): Promise<string[]> =>
    (await done('GET', `?memory_type=${type}`)).entries.map(({ content }: { content: string }) => content).toSorted();
  const long = (what: string) => Array.from({ length: 30 }, (_, n) => `${what} ${n} is late again.`).join(' ');

  it('is no more trusted than it was, true and there for as long, and used as often', async () => {
    const times = {
      valid_from: '2020-01-01T00:00:00.000Z',
      valid_to: '2120-01-01T00:00:00.000Z',
      expires_at: '2130-01-01T00:00:00.000Z',
    };
    const metadata = { source: 'web', profile: true, subject: 'ferries' };
    const id = await add(long('Ferry'), { ...times, metadata, thread_id: 'a thread' });
    for (const query of ['late ferry', 'ferry again']) await done('POST', '/query', { query });
    await consolidate();
    const [entry, ...more] = await episodic();
    const { valid_from, valid_to, expires_at, origin, trusted, access_count: uses } = entry;
    assert.deepEqual({ valid_from, valid_to, expires_at }, times);
    assert.deepEqual([origin, trusted, uses, entry.thread_id, entry.metadata], ['web', false, 2, 'a thread', metadata]);
    assert.deepEqual([entry.provenance.made_from, more], [[id], []]);
  });

  it('counts the uses of what was merged, once, however often that is undone', async () => {
    const fact = 'The ferry leaves at noon.';
    await add(fact);
    for (let n = 0; n < 3; n++) await done('POST', '/query', { query: 'When does the ferry leave?' });
    const kept = await add(fact, { memory_type: 'EPISODIC' });
    for (let n = 0; n < 2; n++) await done('POST', '/query', { query: 'ferry' });
    const uses = async () => (await done('GET', `/${kept}`)).access_count;
    assert.equal(await uses(), 2);
    const { consolidation_id: id, merged } = await consolidate();
    assert.deepEqual([merged, await uses()], [1, 7]);
    for (let n = 0; n < 2; n++) await done('POST', `/consolidations/${id}/revert`);
    assert.equal(await uses(), 2);
  });

  it('is merged from a cosine of 0.95, and not where a number or a word differs', async () => {
    const at = (cosine: number) => [cosine, Math.sqrt(1 - cosine ** 2)];
    const pairs = [
      ['The boat to the island is late.', 'The boat to the island is really late.', 0.96],
      ['The bus to the harbour is slow.', 'The bus to the harbour is really slow.', 0.94],
      ['The tram has 40 seats for us.', 'The tram has 41 seats for us.', 0.99],
      ['The left lamp of the car is broken.', 'The right lamp of the car is broken.', 0.99],
    ] as const;
    for (const [index, [kept, other, cosine]] of pairs.entries()) {
      const ids = [await add(kept, { memory_type: 'EPISODIC' }), await add(other)];
      const place = (of: number[]) => Array.from({ length: 8 }, (_, n) => of[n - 2 * index] ?? 0);
      await setVectors({ ...api, tenantId: DEFAULT_TENANT_ID }, [
        { id: ids[0] ?? '', vector: place([1]) },
        { id: ids[1] ?? '', vector: place(at(cosine)) },
      ]);
    }
    assert.equal((await consolidate()).merged, 1);
    const left = ['The boat to the island is late.', ...pairs.slice(1).flatMap(([kept, other]) => [kept, other])];
    assert.deepEqual(await contents('EPISODIC'), left.toSorted());
  });

  it('is merged into the same text, however that is written', async () => {
    await add('The caf\u00e9 opens at nine.', { memory_type: 'EPISODIC' });
    await add('the  cafe\u0301 opens at nine.');
    assert.equal((await consolidate()).merged, 1);
  });

  it('is not done by itself for an agent that does not ask for it', async () => {
    await make({ long_term: { enabled: true } });
    await add('The weather was grey.', { relevance_score: 0 });
    const of = { tenantId: DEFAULT_TENANT_ID, agentId: agent };
    assert.deepEqual(await consolidateDue(api.context, of, new AbortController().signal), { skipped: 1 });
    assert.deepEqual(await contents('SHORT_TERM'), ['The weather was grey.']);
  });

  it('goes with what it was made from, and what else that was is remembered by itself again', async () => {
    const ids = [await add(long('Ferry')), await add(long('Tram'))];
    await consolidate();
    await joinSummaries({ ...api, tenantId: DEFAULT_TENANT_ID }, agent);
    assert.equal((await episodic()).length, 1);
    const { removed } = await done('POST', '/forget', { ids: [ids[0]] });
    assert.deepEqual(removed, { entries: 0, summaries: 1, archive: 1, events: 0 });
    assert.deepEqual([await contents('EPISODIC'), await contents('SHORT_TERM')], [[], [long('Tram')]]);
    assert.equal((await done('POST', '/query', { query: 'late tram' })).entries.length, 1);
  });

  it('is forgotten by its subject from the archive, too', async () => {
    await make({ consolidation: { min_age_hours: 0, importance_threshold: 0.9 } });
    await add('It was foggy.', { relevance_score: 0, metadata: { subject: 'weather' } });
    assert.equal((await consolidate()).evicted, 1);
    const { removed } = await done('POST', '/forget', { subject: 'weather' });
    assert.deepEqual(removed, { entries: 0, summaries: 0, archive: 1, events: 0 });
  });

  it('is apart again from what it was merged into when that is undone', async () => {
    const fact = 'The ferry leaves at noon.';
    const into = await add(fact, { memory_type: 'EPISODIC' });
    await add(fact);
    const { consolidation_id: id, merged } = await consolidate();
    assert.equal(merged, 1);
    await done('POST', `/consolidations/${id}/revert`);
    await done('PATCH', `/${into}`, { content: 'The ferry is gone for good.' });
    const memory_config = { consolidation: { min_age_hours: 0, importance_threshold: 1 } };
    await api.call('PATCH', `/v1/agents/${agent}`, { body: { memory_config } });
    assert.equal((await consolidate()).evicted, 1);
    const { removed } = await done('POST', '/forget', { ids: [into] });
    assert.deepEqual(removed, { entries: 2, summaries: 0, archive: 0, events: 0 });
    assert.equal((await done('GET', '/archive')).entries.length, 1);
  });
});
