import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { maintain } from '../../modules/platform/maintain.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { newRememberingAgent } from '../support/remembering-agent.ts';
import { expireApprovals } from '../support/queries/approvals.ts';

describe('Corrections of memory that meet', () => {
  let api: TestApi;
  let agent: string;

  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());
  beforeEach(async () => {
    agent = await newRememberingAgent(api);
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

  it('that were put away at once are found by their words when they are taken up', async () => {
    const id = await add('Hal lives in Rome.');
    const { json } = await patch(id, { content: 'Hal lives in a lighthouse.', status: 'archived' });
    const found = async () => {
      const { entries } = (await api.call('POST', path('/query'), { body: { query: 'lighthouse' } })).json;
      return entries.map((each: { id: string; why: { lexical?: number } }) => [each.id, (each.why.lexical ?? 0) > 0]);
    };
    assert.deepEqual(await found(), []);
    await patch(json.id, { status: 'active' });
    assert.deepEqual(await found(), [[json.id, true]]);
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

  interface Asked {
    id: string;
    memory_id: string;
    arguments: { conflicts_with: string; also_conflicts_with?: string[]; version_a: string };
  }
  const asked = async (ids: readonly string[]): Promise<Asked[]> =>
    (await api.call('GET', '/v1/approvals?status=pending')).json.approvals.filter(({ memory_id: of }: Asked) =>
      ids.includes(of),
    );
  const statuses = async (ids: readonly string[]) => Promise.all(ids.map(async (id) => (await get(id)).status));

  it('of one that is contradicted beside others leave the question about those', async () => {
    const leave: Record<string, (id: string) => Promise<{ status: number }>> = {
      corrected: (id) => patch(id, { content: 'Somebody else lives in a house by the sea.' }),
      'put away': (id) => patch(id, { status: 'archived' }),
      forgotten: (id) => api.call('DELETE', path(`/${id}`)),
    };
    for (const [how, away] of Object.entries(leave)) {
      const name = `Person${randomUUID().slice(0, 8)}`;
      const [older, second] = [await add(`${name} lives in Oslo.`), await add(`${name} lives in Oslo.`)];
      const newer = await add(`${name} lives in Bergen.`);
      const [before] = await asked([newer]);
      assert.deepEqual([before?.arguments.conflicts_with, before?.arguments.also_conflicts_with], [second, [older]]);
      assert.ok((await away(second)).status < 300);
      assert.deepEqual(await statuses([older, newer]), ['disputed', 'disputed'], how);
      const [now, ...more] = await asked([newer]);
      const { conflicts_with: other, also_conflicts_with: also, version_a: said } = now?.arguments ?? {};
      assert.deepEqual([other, also, said, more], [older, undefined, `${name} lives in Oslo.`, []], how);
      const { status } = await api.call('POST', `/v1/approvals/${now?.id}`, { body: { decision: 'deny' } });
      assert.deepEqual([status, await statuses([older, newer])], [200, ['active', 'superseded']], how);
    }
  });

  it('leave no mark behind when the last of those goes that were contradicted, though nobody has decided in time', async () => {
    const name = `Person${randomUUID().slice(0, 8)}`;
    const older = [await add(`${name} lives in Oslo.`), await add(`${name} lives in Oslo.`)];
    const newer = await add(`${name} lives in Bergen.`);
    await expireApprovals(api.context.db);
    await maintain(api.context, 'expire-approvals');
    for (const id of older.toReversed()) {
      assert.equal((await get(newer)).status, 'disputed');
      await api.call('DELETE', path(`/${id}`));
      assert.deepEqual(await asked([newer]), [], 'who had not decided in time is not asked again');
    }
    assert.equal((await get(newer)).status, 'active');
    assert.deepEqual(await asked([newer]), []);
  });

  it('that a person decides on leave what else is asked to be decided', async () => {
    const name = `Person${randomUUID().slice(0, 8)}`;
    const ids = [
      await add(`${name} lives in Oslo.`),
      await add(`${name} lives in Bergen.`),
      await add(`${name} lives in Narvik.`),
    ] as const;
    const [, second, third] = ids;
    const decide = async (about: string, decision: string) => {
      const [question] = await asked([about]);
      return (await api.call('POST', `/v1/approvals/${question?.id}`, { body: { decision } })).status;
    };
    assert.equal(await decide(second, 'deny'), 200);
    assert.deepEqual(await statuses(ids), ['disputed', 'superseded', 'disputed']);
    assert.equal(await decide(third, 'deny'), 200);
    assert.deepEqual(await statuses(ids), ['active', 'superseded', 'superseded']);
    assert.deepEqual(await asked(ids), []);
    const others = [
      await add(`The harbour of ${name} is in Oslo.`),
      await add(`The harbour of ${name} is in Bergen.`),
      await add(`The harbour of ${name} is in Narvik.`),
    ] as const;
    assert.equal(await decide(others[2], 'approve'), 200);
    assert.deepEqual(await statuses(others), ['superseded', 'superseded', 'active']);
    assert.deepEqual(await asked(others), [], 'nobody is asked about what is gone');
  });

  it('with another text by whoever decides hold that against the others', async () => {
    const name = `Person${randomUUID().slice(0, 8)}`;
    await add(`${name} lives in Oslo.`);
    const newer = await add(`${name} lives in Bergen.`);
    const [question] = await asked([newer]);
    const third = await add(`The cat of ${name} lives in Narvik.`);
    const body = { decision: 'edit', arguments: { content: `The cat of ${name} lives in Rome.` } };
    assert.equal((await api.call('POST', `/v1/approvals/${question?.id}`, { body })).status, 200);
    const next = (await get(newer)).superseded_by;
    assert.deepEqual(await statuses([third, next]), ['disputed', 'disputed']);
    assert.equal((await asked([next])).length, 1);
  });
});
