import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startTestApi, type TestApi } from '../support/api.ts';

describe('The thread of a session that was deleted', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi(undefined, { env: { DROVER_MODEL: 'offline' } });
  });
  after(() => api.close());

  it('takes no further run, and no retry of one; there is nothing to interrupt', async () => {
    const call = (path: string, body: object) => api.call('POST', path, { body });
    const agent = (await call('/v1/agents', { name: 'talks' })).json.id;
    const chat = { message: 'one', user_id: randomUUID(), agent_id: agent };
    const session = (await call('/agent/chat', chat)).json.session_id;
    const runsOf = async () => (await api.call('GET', `/v1/runs?thread_id=${session}`)).json.runs;
    const [run] = await runsOf();
    await call('/agent/chat', { ...chat, message: 'and then', session_id: session });
    assert.equal((await api.call('GET', `/agent/session/${session}`)).json.queued_message, 'and then');
    assert.equal((await api.call('DELETE', `/agent/session/${session}`)).status, 200);
    const { json: shown } = await api.call('GET', `/agent/session/${session}`);
    assert.deepEqual([shown.archived, shown.queued_message], [true, null]);
    const attempts = [
      call(`/v1/agents/${agent}/runs`, { thread_id: session, input: { message: 'two' } }),
      call(`/v1/agents/${agent}/runs`, { thread_id: session }),
      call(`/v1/runs/${run.run_id}/retry`, {}),
    ];
    for (const { status, json } of await Promise.all(attempts)) {
      assert.deepEqual([status, json.session_id], [409, session]);
      assert.match(json.detail, /session that was deleted/);
    }
    assert.equal((await runsOf()).length, 1);
    const { status, json } = await call('/agent/interrupt', { session_id: session });
    assert.deepEqual([status, json], [200, { status: 'interrupted', message: 'Nothing was being executed' }]);
  });
});
