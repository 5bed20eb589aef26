/** When a change of policies or tools is answered, no commit is under way that was let through by the rule of before. */
import assert from 'node:assert/strict';
import { becomeWriter } from '../../db/governance.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { door } from '../support/engine.ts';
import { MODES } from '../support/modes.ts';
import { waitUntil } from '../support/wait-until.ts';
import { databaseTime, sessionsAwaitingWriters } from '../support/queries/postgres.ts';

// The embedded database has one session: no transaction is under way while another one is.
if (MODES.includes('postgres')) describe('The answer to a change of rules on Postgres', onPostgres);

function onPostgres(): void {
  let api: TestApi;
  let tenant: { id: string; key: string };
  before(async () => {
    api = await startTestApi('postgres');
    tenant = await api.newTenant();
  });
  after(() => api.close());

  const rule = { name: 'no charges', when: 'tool.name == "charge"', decision: 'block', reason: 'never' };
  const charge = {
    name: 'charge',
    description: 'Charges.',
    transport: { type: 'http', endpoint: 'https://example.com/charge' },
  };
  const ask = (method: string, path: string, body?: unknown) => api.call(method, path, { key: tenant.key, body });

  /** A commit that has read the rules and has not ended. */
  async function holdCommit(): Promise<() => Promise<void>> {
    const held = door();
    const holding = api.context.db.withTenant(tenant.id, async (tx) => {
      await becomeWriter(tx);
      await api.context.governance.current(tx, tenant.id);
      await held.pass();
    });
    await held.reached;
    return () => {
      held.open();
      return holding;
    };
  }

  async function answersAfterCommits(method: string, path: string, body?: unknown) {
    const { db } = api.context;
    const now = await databaseTime(db);
    const release = await holdCommit();
    let answered = false;
    const asked = ask(method, path, body).finally(() => {
      answered = true;
    });
    await waitUntil('the request waits, or is answered', async () => {
      return answered || (await sessionsAwaitingWriters(db, now)).length > 0;
    });
    assert.equal(answered, false, `${method} ${path} is answered while the commit is under way`);
    await release();
    const answer = await asked;
    assert.ok(answer.status < 300, answer.text);
    return answer;
  }

  it('comes after the commits that were under way when a policy was made, changed or taken away', async () => {
    const { json } = await answersAfterCommits('POST', '/v1/policies', rule);
    await answersAfterCommits('PATCH', `/v1/policies/${json.id}`, { reason: 'never ever' });
    await answersAfterCommits('DELETE', `/v1/policies/${json.id}`);
  });

  it('comes after the commits that were under way when a tool was changed or taken away', async () => {
    const made = await ask('POST', '/v1/tools', charge);
    assert.equal(made.status, 201, made.text);
    const { json } = made;
    await answersAfterCommits('PATCH', `/v1/tools/${json.tool_id}`, { description: 'Charges a card.' });
    await answersAfterCommits('DELETE', `/v1/tools/${json.tool_id}`);
  });
}
