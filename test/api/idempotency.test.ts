import assert from 'node:assert/strict';
import { impossible } from '../../core/errors.ts';
import { newId } from '../../lib/new-id.ts';
import { maintain } from '../../modules/platform/maintain.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { idempotently } from '../../modules/tenants/idempotency.ts';
import { startTestApi } from '../support/api.ts';
import type { TestApi } from '../support/api.ts';
import { DOMAIN_MODES } from '../support/modes.ts';
import { ageIdempotencyKey } from '../support/queries/tenants.ts';
import { newName } from '../support/new-name.ts';

for (const mode of DOMAIN_MODES) {
  describe(`a request with an Idempotency-Key (${mode})`, () => {
    let api: TestApi;
    before(async () => {
      api = await startTestApi(mode);
    });
    after(() => api.close());

    const create = (key: string | undefined, body: unknown, caller = api.key) =>
      api.call('POST', '/v1/agents', {
        key: caller,
        body,
        headers: key === undefined ? {} : { 'idempotency-key': key },
      });
    const request = (key?: string) => ({ tenantId: DEFAULT_TENANT_ID, route: 'POST /test', key, body: { a: 1 } });

    it('is answered as before when it comes again, and creates nothing', async () => {
      const { key } = await api.newTenant();
      const first = await create('k1', { name: 'a', tags: ['x'] }, key);
      const second = await create('k1', { tags: ['x'], name: 'a' }, key);
      assert.deepEqual([first.status, second.status], [201, 201]);
      assert.equal(second.text, first.text);
      assert.equal(second.headers.get('location'), first.headers.get('location'));
      assert.deepEqual(
        [first, second].map(({ headers }) => headers.get('idempotent-replayed')),
        [null, 'true'],
      );
      assert.equal((await api.call('GET', '/v1/agents', { key })).json.agents.length, 1);
    });

    it('is 422 when it comes again with another body', async () => {
      await create('k2', { name: newName() });
      const answer = await create('k2', { name: 'b' });
      assert.deepEqual([answer.status, /Idempotency-Key/.test(answer.json.detail)], [422, true]);
    });

    it('twenty times at once creates once, and all have the same answer', async () => {
      const { key } = await api.newTenant();
      const answers = await Promise.all(Array.from({ length: 20 }, () => create('k3', { name: 'a' }, key)));
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [201]);
      assert.equal(new Set(answers.map(({ json }) => json.id)).size, 1);
      assert.equal(answers.filter(({ headers }) => headers.get('idempotent-replayed') === null).length, 1);
      assert.equal((await api.call('GET', '/v1/agents', { key })).json.agents.length, 1);
    });

    it("is its tenant's and route's own", async () => {
      const { key } = await api.newTenant();
      const ours = await create('k4', { name: newName() });
      const theirs = await create('k4', { name: 'a' }, key);
      assert.notEqual(ours.json.id, theirs.json.id);
      const body = { name: 'k4', description: 'd', transport: { type: 'http', endpoint: 'https://x.example' } };
      assert.equal((await api.call('POST', '/v1/tools', { body, headers: { 'idempotency-key': 'k4' } })).status, 201);
    });

    it('may be sent again after it has failed', async () => {
      assert.equal((await create('k5', { name: 'k5', tools: ['missing_tool'] })).status, 422);
      const body = {
        name: 'missing_tool',
        description: 'd',
        transport: { type: 'http', endpoint: 'https://x.example' },
      };
      await api.call('POST', '/v1/tools', { body });
      assert.equal((await create('k5', { name: 'k5', tools: ['missing_tool'] })).status, 201);
    });

    it('is 400 where the key is empty, too long or not visible', async () => {
      for (const key of ['', 'x'.repeat(256), 'a b', 'ü']) {
        const answer = await create(key, { name: newName() });
        assert.deepEqual([answer.status, answer.json.errors?.[0]?.path], [400, 'header.idempotency-key'], key);
      }
      assert.equal((await create('x'.repeat(255), { name: newName() })).status, 201);
    });

    it('leaves nothing behind where its work fails', async () => {
      const key = newId();
      await assert.rejects(
        idempotently(api.context, request(key), () => Promise.reject(impossible('no'))),
        /no/,
      );
      const answer = await idempotently(api.context, request(key), () =>
        Promise.resolve({ status: 201, body: 'done' }),
      );
      assert.deepEqual(answer, { status: 201, body: 'done', replayed: false });
    });

    it('is work like any other after 24 hours, swept or not', async () => {
      const work = (body: string) => () => Promise.resolve({ status: 200, body });
      const age = (key: string) => ageIdempotencyKey({ ...api, tenantId: DEFAULT_TENANT_ID }, key);
      const [kept, swept] = [newId(), newId()];
      for (const key of [kept, swept]) await idempotently(api.context, request(key), work('first'));
      await age(swept);
      await maintain(api.context, 'forget-old');
      await age(kept);
      for (const key of [kept, swept]) {
        assert.equal((await idempotently(api.context, request(key), work('second'))).body, 'second');
        assert.equal((await idempotently(api.context, request(key), work('third'))).body, 'second');
      }
    });

    it('is not remembered without a key', async () => {
      const name = newName();
      const [first, second] = [await create(undefined, { name }), await create(undefined, { name })];
      assert.deepEqual([second.status, second.json.agent_id], [409, first.json.id]);
    });
  });
}
