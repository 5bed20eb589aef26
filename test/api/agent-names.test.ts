import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startTestApi, type TestApi } from '../support/api.ts';
import { DOMAIN_MODES } from '../support/modes.ts';
import { newName } from '../support/new-name.ts';
import { insertAgentAsOfOld, renameAgentAsOfOld } from '../support/queries/agents.ts';

for (const mode of DOMAIN_MODES) {
  describe(`names of agents (${mode})`, () => {
    let api: TestApi;
    before(async () => {
      api = await startTestApi(mode);
    });
    after(() => api.close());

    const create = async (name: string): Promise<string> => {
      const { status, json, text } = await api.call('POST', '/v1/agents', { body: { name } });
      assert.equal(status, 201, text);
      return json.id;
    };
    const assertTaken = async (
      answer: Promise<{ status: number; json: { code: string; agent_id: string } }>,
      by: string,
    ) => {
      const { status, json } = await answer;
      assert.deepEqual([status, json.code, json.agent_id], [409, 'conflict', by]);
    };

    it('are taken once in a workspace, whichever way an agent gets one', async () => {
      const [taken, other] = [newName(), newName()];
      const [id, another] = [await create(taken), await create(other)];
      const external = randomUUID();
      const body = { name: taken };
      await assertTaken(api.call('POST', '/v1/agents', { body }), id);
      await assertTaken(api.call('POST', '/v1/agents', { body: { name: ` ${taken} ` } }), id);
      await assertTaken(api.call('PATCH', `/v1/agents/${another}`, { body }), id);
      await assertTaken(api.call('PUT', `/v1/agents/ext:${external}`, { body }), id);
      assert.equal((await api.call('GET', `/v1/agents/ext:${external}`)).status, 404);
      assert.equal((await api.call('GET', `/v1/agents/${another}`)).json.version, '1.0.0');
      const { key } = await api.newTenant();
      assert.equal((await api.call('POST', '/v1/agents', { key, body })).status, 201, 'in another workspace');
    });

    it('stay with their agents in what is published of them', async () => {
      const name = newName();
      const id = await create(name);
      const { status, json } = await api.call('PATCH', `/v1/agents/${id}`, { body: { name, description: 'other' } });
      assert.deepEqual([status, json.version], [200, '1.1.0']);
    });

    it('are free again when their agent is called otherwise, or deprecated', async () => {
      const [name, later] = [newName(), newName()];
      const id = await create(name);
      assert.equal((await api.call('PATCH', `/v1/agents/${id}`, { body: { name: later } })).status, 200);
      await create(name);
      await api.call('DELETE', `/v1/agents/${id}`);
      await create(later);
    });

    it('go to one of those that ask for them at once', async () => {
      const name = newName();
      const asked = [0, 1, 2, 3, 4, 5].map(async (nth) => {
        if (nth % 2 === 0) return api.call('POST', '/v1/agents', { body: { name } });
        return api.call('PUT', `/v1/agents/ext:${randomUUID()}`, { body: { name } });
      });
      const statuses = (await Promise.all(asked)).map(({ status }) => status);
      assert.deepEqual(
        statuses.toSorted((a, b) => a - b),
        [201, 409, 409, 409, 409, 409],
      );
    });

    it('that a process of 0.1.0 has given twice stay as they are, and nobody else gets them', async () => {
      const name = newName();
      const first = await create(name);
      const second = await insertAgentAsOfOld(api.context.db, { like: first });
      const described = await api.call('PATCH', `/v1/agents/${second}`, { body: { description: 'the second' } });
      assert.deepEqual([described.status, described.json.name], [200, name], described.text);
      await assertTaken(api.call('POST', '/v1/agents', { body: { name } }), first);
      await api.call('DELETE', `/v1/agents/${first}`);
      await assertTaken(api.call('POST', '/v1/agents', { body: { name } }), second);
    });

    it('that a process of 0.1.0 gives once more by renaming an agent are shared, too', async () => {
      const [name, other] = [newName(), newName()];
      const [first, second] = [await create(name), await create(other)];
      await renameAgentAsOfOld(api.context.db, second, name);
      await assertTaken(api.call('POST', '/v1/agents', { body: { name } }), first);
      await create(other);
    });
  });
}
