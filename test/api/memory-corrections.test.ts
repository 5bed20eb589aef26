import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startTestApi, type TestApi } from '../support/api.ts';

describe('Corrections of memory that meet', () => {
  let api: TestApi;
  let agent: string;

  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());
  beforeEach(async () => {
    const body = { name: `agent ${randomUUID()}`, memory_config: { long_term: { enabled: true } } };
    agent = (await api.call('POST', '/v1/agents', { body })).json.id;
  });

  const path = (rest = '') => `/v1/agents/${agent}/memory${rest}`;
  const add = async (content: string): Promise<string> =>
    (await api.call('POST', path(), { body: { content, memory_type: 'SEMANTIC' } })).json.id;
  const patch = (id: string, body: object) => api.call('PATCH', path(`/${id}`), { body });
  const get = async (id: string) => (await api.call('GET', path(`/${id}`))).json;
  const listed = async (status: string): Promise<string[]> =>
    (await api.call('GET', path(`?status=${status}`))).json.entries.map(({ content }: { content: string }) => content);
  const open = async (id: string): Promise<number> =>
    (await api.call('GET', '/v1/approvals?status=pending')).json.approvals.filter(
      ({ memory_id: of }: { memory_id: string | null }) => of === id,
    ).length;

  it('are one after the other: the first supersedes, the others are told by what', async () => {
    const id = await add('Dora lives in Rome.');
    const said = Array.from({ length: 12 }, (_, n) =>
      patch(id, { content: `Dora lives in house ${n}.`, reason: 'so' }),
    );
    const answers = await Promise.all(said);
    const [won, ...more] = answers.filter(({ status }) => status === 200);
    assert.deepEqual([won?.json.version, more.length], [2, 0]);
    for (const { status, json } of answers.filter((each) => each !== won)) {
      assert.deepEqual([status, json.superseded_by], [409, won?.json.id]);
    }
    assert.deepEqual(await listed('active'), [won?.json.content]);
  });

  it('that take up again what was put away hold it against what has come since', async () => {
    const id = await add('Fay lives in Rome.');
    await patch(id, { status: 'archived' });
    const other = await add('Fay lives in Paris.');
    assert.equal((await get(other)).status, 'active');
    const { status, json } = await patch(id, { status: 'active' });
    assert.deepEqual([status, json.status, (await get(other)).status], [200, 'disputed', 'disputed']);
    assert.equal(await open(id), 1);
    await patch(id, { status: 'archived' });
    assert.deepEqual([(await get(other)).status, await open(id)], ['active', 0]);
    const typed = await patch(id, { memory_type: 'EPISODIC' });
    assert.deepEqual(
      [typed.json.status, (await get(other)).status, await open(typed.json.id)],
      ['disputed', 'disputed', 1],
    );
  });

  it('of the type alone end no dispute', async () => {
    const [id, other] = [await add('Gil lives in Rome.'), await add('Gil lives in Paris.')];
    const { json } = await patch(other, { memory_type: 'EPISODIC' });
    assert.deepEqual([json.status, (await get(id)).status], ['disputed', 'disputed']);
    assert.deepEqual([await open(other), await open(json.id)], [0, 1]);
  });

  it('of one that was put away leave no second version of the fact', async () => {
    const id = await add('Carl lives in Rome.');
    await patch(id, { status: 'archived' });
    const { json } = await patch(id, { content: 'Carl lives in Paris.' });
    assert.deepEqual([json.status, json.supersedes], ['active', id]);
    assert.deepEqual([(await get(id)).status, (await get(id)).superseded_by], ['superseded', json.id]);
    assert.equal((await patch(id, { content: 'Carl lives in Nice.' })).status, 409);
    assert.equal((await patch(id, { status: 'active' })).status, 409);
    assert.deepEqual(await listed('active'), ['Carl lives in Paris.']);
  });

  it('of one side of a contradiction free the other of its mark, and ask nobody any more', async () => {
    const leave: Record<string, (id: string) => Promise<{ status: number }>> = {
      corrected: (id) => patch(id, { content: 'Somebody else lives in a house by the sea.' }),
      'put away': (id) => patch(id, { status: 'archived' }),
      forgotten: (id) => api.call('DELETE', path(`/${id}`)),
    };
    for (const [how, away] of Object.entries(leave)) {
      for (const goes of ['older', 'newer']) {
        const name = `Person${randomUUID().slice(0, 8)}`;
        const [older, newer] = [await add(`${name} lives in Oslo.`), await add(`${name} lives in Bergen.`)];
        assert.deepEqual([(await get(older)).status, (await get(newer)).status], ['disputed', 'disputed']);
        assert.equal(await open(newer), 1);
        const [gone, stays] = goes === 'older' ? [older, newer] : [newer, older];
        assert.ok((await away(gone)).status < 300);
        assert.equal((await get(stays)).status, 'active', `${goes} ${how}`);
        assert.equal(await open(newer), 0, `${goes} ${how}`);
      }
    }
  });

  it('leave the mark where an entry contradicts another one, too', async () => {
    const name = `Person${randomUUID().slice(0, 8)}`;
    const oslo = await add(`${name} lives in Oslo.`);
    const bergen = await add(`${name} lives in Bergen.`);
    const narvik = await add(`${name} lives in Narvik.`);
    await patch(narvik, { status: 'archived' });
    assert.deepEqual([(await get(oslo)).status, (await get(bergen)).status], ['disputed', 'disputed']);
  });

  it('that a person decides on take with them what else was contradicted', async () => {
    for (const [decision, rest, state] of [
      ['approve', 'active', ['superseded', 'superseded']],
      ['deny', 'superseded', ['active', 'active']],
      ['edit', 'superseded', ['superseded', 'superseded']],
    ] as const) {
      const name = `Person${randomUUID().slice(0, 8)}`;
      const older = [await add(`${name} lives in Oslo.`), await add(`${name} lives in Oslo.`)];
      const newer = await add(`${name} lives in Bergen.`);
      const { approvals } = (await api.call('GET', '/v1/approvals?status=pending')).json;
      const { id } = approvals.find(({ memory_id: of }: { memory_id: string | null }) => of === newer);
      const args = decision === 'edit' ? { arguments: { content: `${name} lives in Narvik.` } } : {};
      const decided = await api.call('POST', `/v1/approvals/${id}`, { body: { decision, ...args } });
      assert.equal(decided.status, 200, decided.text);
      assert.deepEqual([(await get(newer)).status, decision], [rest, decision]);
      assert.deepEqual(await Promise.all(older.map(async (each) => (await get(each)).status)), state, decision);
    }
  });
});
