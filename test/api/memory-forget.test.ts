import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startTestApi, type TestApi } from '../support/api.ts';
import { tablesWith } from '../support/find-text.ts';

/** After each of these no table has the word any more, wherever it was. */
describe('Forgetting, whatever has become of a memory', () => {
  let api: TestApi;
  let agent: string;

  const consolidation = { min_age_hours: 0, max_tokens: 1, importance_threshold: 0.1, max_entry_tokens: 30 };
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());
  beforeEach(async () => {
    const body = { name: `agent ${randomUUID()}`, memory_config: { consolidation } };
    agent = (await api.call('POST', '/v1/agents', { body })).json.id;
  });

  const path = (rest = '') => `/v1/agents/${agent}/memory${rest}`;
  const done = async (method: string, rest: string, body?: unknown) => {
    const { status, json, text } = await api.call(method, path(rest), body === undefined ? {} : { body });
    assert.ok(status < 300, text);
    return json;
  };
  const add = async (content: string, more: object = {}): Promise<string> =>
    (await done('POST', '', { content, memory_type: 'SEMANTIC', ...more })).id;
  const correct = async (id: string, content: string): Promise<string> =>
    (await done('PATCH', `/${id}`, { content })).id;
  const forget = async (what: object) => (await done('POST', '/forget', what)).removed;
  const left = (word: string) => tablesWith(api.context.db, word);
  const short = { memory_type: 'SHORT_TERM', relevance_score: 1 };
  const long = (word: string) =>
    Array.from({ length: 30 }, (_, n) => `Ferry ${n} to ${word} island is on time.`).join(' ');
  const consolidate = () => done('POST', '/consolidate', { strategy: 'importance' });
  const only = async (): Promise<string> => (await done('GET', '')).entries[0].id;

  it('finds by its words what has been corrected since, or put away', async () => {
    const corrected = await add('Ada lives in Quokkaville.');
    await correct(corrected, 'Ada lives in Bergen.');
    await done('PATCH', `/${await add('Bob lives in Quokkaville.')}`, { status: 'archived' });
    await add('Carl lives in Oslo.');
    assert.deepEqual(await forget({ query: 'quokkaville' }), { entries: 3, summaries: 0, archive: 0, events: 0 });
    assert.deepEqual(await left('quokkaville'), []);
    assert.deepEqual((await done('GET', '')).entries.length, 1);
  });

  it('finds by its words what consolidation has moved to the archive', async () => {
    await add('It was foggy in Quollville.', { memory_type: 'SHORT_TERM', relevance_score: 0 });
    await add('The tram to Oslo was late.', { memory_type: 'SHORT_TERM', relevance_score: 0 });
    const body = { name: `agent ${randomUUID()}`, memory_config: { consolidation: { importance_threshold: 0.9 } } };
    const strict = (await api.call('PATCH', `/v1/agents/${agent}`, { body: { memory_config: body.memory_config } }))
      .status;
    assert.ok(strict < 300);
    assert.equal((await consolidate()).evicted, 2);
    assert.deepEqual(await forget({ query: 'quollville', dry_run: true }), {
      entries: 0,
      summaries: 0,
      archive: 1,
      events: 0,
    });
    await forget({ query: 'quollville' });
    assert.deepEqual(await left('quollville'), []);
    assert.equal((await done('GET', '/archive')).entries.length, 1);
  });

  it('takes with an entry what has corrected the summary that was made from it', async () => {
    const source = await add(long('Numbatville'), short);
    await consolidate();
    await correct(await only(), 'The ferries to Numbatville are slow.');
    assert.deepEqual(await forget({ ids: [source] }), { entries: 0, summaries: 2, archive: 1, events: 0 });
    assert.deepEqual(await left('numbatville'), []);
  });

  it('takes with a summary what it was made from', async () => {
    await add(long('Wombatville'), short);
    await consolidate();
    await done('DELETE', `/${await only()}`);
    assert.deepEqual(await left('wombatville'), []);
  });

  it('takes with an entry what was merged into it, which no revert brings back', async () => {
    const kept = await add('The kea of Keaville flies at noon.');
    await add('The kea of Keaville flies at noon.', short);
    const { consolidation_id: id, merged } = await consolidate();
    assert.equal(merged, 1);
    await done('DELETE', `/${kept}`);
    assert.deepEqual(await left('keaville'), []);
    assert.equal((await done('POST', `/consolidations/${id}/revert`)).restored, 0);
    assert.deepEqual((await done('GET', '')).entries, []);
  });

  it('finds words of languages that put no space between them, and signs', async () => {
    await add('彼女は東京に住んでいます。');
    await add('The answer was 🦘 again.');
    await add('They live in Oslo.');
    assert.equal((await forget({ query: '東京' })).entries, 1);
    assert.equal((await forget({ query: '🦘' })).entries, 1);
    for (const query of ['the of and', "'", '%', '& | !', '❓'])
      assert.equal((await forget({ query })).entries, 0, query);
    assert.equal((await done('GET', '')).entries.length, 1);
  });

  it('finds words however their letters are composed, and common ones where there are no others', async () => {
    await add('Jose\u0301 lives in Gr\u00E4z.');
    await add('\u304B\u3099\u3044\u3053\u304F'); // The first letter is two characters.
    await add('The Who are a band.');
    await add('They are in Oslo.');
    for (const query of ['Jos\u00E9 Gra\u0308z', '\u304C\u3044', 'are a', 'the Oslo'])
      assert.equal((await forget({ query })).entries, 1, query);
    assert.deepEqual((await done('GET', '')).entries, []);
  });

  it('takes either side of a contradiction, also where a person has said something else in place of both', async () => {
    const memory_config = { long_term: { enabled: true } };
    for (const goes of [0, 1]) {
      agent = (await api.call('POST', '/v1/agents', { body: { name: `agent ${randomUUID()}`, memory_config } })).json
        .id;
      const places = ['Possumville', 'Dunnartville'];
      const ids = [await add(`The office is in ${places[0]}.`), await add(`The office is in ${places[1]}.`)];
      const { approvals } = (await api.call('GET', '/v1/approvals?status=pending')).json;
      const { id } = approvals.find(({ memory_id: of }: { memory_id: string | null }) => of === ids[1]);
      const body = { decision: 'edit', arguments: { content: 'The office is in Rome.' } };
      assert.equal((await api.call('POST', `/v1/approvals/${id}`, { body })).status, 200);
      await done('DELETE', `/${ids[goes]}`);
      assert.deepEqual(await left(places[goes] ?? ''), []);
      await forget({ query: 'office' });
    }
  });

  it('takes what a person has decided against with the fact that is so instead, not the other way round', async () => {
    const memory_config = { long_term: { enabled: true } };
    agent = (await api.call('POST', '/v1/agents', { body: { name: `agent ${randomUUID()}`, memory_config } })).json.id;
    for (const [decision, lost, all] of [
      ['approve', 0, 3],
      ['deny', 1, 3],
      ['edit', 0, 4],
    ] as const) {
      const office = (place: string) => `The ${decision} office is in ${place}.`;
      const ids = [await add(office('Pademelonville')), await add(office('Cuscusville'))];
      const { approvals } = (await api.call('GET', '/v1/approvals?status=pending')).json;
      const { id } = approvals.find(({ memory_id: of }: { memory_id: string | null }) => of === ids[1]);
      const body = { decision, ...(decision === 'edit' && { arguments: { content: office('Rome') } }) };
      assert.equal((await api.call('POST', `/v1/approvals/${id}`, { body })).status, 200);
      const { superseded_by: kept } = await done('GET', `/${ids[lost]}`);
      const corrected = await correct(kept, office('Oslo'));
      const counted = async (...of: unknown[]) => (await forget({ ids: of, dry_run: true })).entries;
      assert.deepEqual([await counted(ids[lost]), await counted(corrected)], [1, all]);
      await done('DELETE', `/${corrected}`);
      assert.deepEqual([...(await left('Pademelonville')), ...(await left('Cuscusville'))], []);
    }
  });

  it('leaves of an answer that an Idempotency-Key repeats nothing but what is no text', async () => {
    const headers = { 'idempotency-key': randomUUID() };
    const body = {
      content: 'Bilbyville is far.',
      memory_type: 'SEMANTIC',
      summary: 'Bilbyville',
      thread_id: 'bilbyville',
    };
    const call = { body: { ...body, metadata: { subject: 'bilbyville' } }, headers };
    const { json: first } = await api.call('POST', path(), call);
    await done('DELETE', `/${first.id}`);
    assert.deepEqual(await left('bilbyville'), []);
    const again = await api.call('POST', path(), call);
    assert.deepEqual([again.status, again.json.id, again.json.content], [201, first.id, '']);

    const space = (await api.call('POST', '/v1/memory/spaces', { body: { name: 'facts' } })).json.id;
    const scopes = ['memory:write'];
    const { key } = (await api.call('POST', '/v1/api-keys', { body: { name: 'writer', scopes } })).json;
    const content = { type: 'structured', data: { place: 'Bettongville' } };
    const provenance = { sources: ['Bettongville'] };
    const write = { key, headers, body: { space_id: space, content, provenance } };
    const { json: fragment } = await api.call('POST', '/v1/memory/write', write);
    await api.call('DELETE', `/v1/memory/fragments/${fragment.id}`);
    assert.deepEqual(await left('bettongville'), []);
    const repeated = await api.call('POST', '/v1/memory/write', write);
    assert.deepEqual([repeated.status, repeated.json.id, repeated.json.content?.data], [201, fragment.id, '']);
  });
});
