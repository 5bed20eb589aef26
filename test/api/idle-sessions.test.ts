import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { LIMITS } from '../../core/limits.ts';
import { listIdleRuns } from '../../db/maintenance.ts';
import { maintain } from '../../modules/platform/maintain.ts';
import { expireRun } from '../../modules/runs/end-run.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { ageIdleRun } from '../support/queries/runs.ts';

const DAY_SECONDS = 24 * 60 * 60;

describe('A session in which nothing is said', () => {
  let api: ScriptedService;
  let agent: string;
  before(async () => {
    api = await startScriptedService();
    agent = await api.newAgent();
  });
  after(() => api.close());

  const read = async (session: string) => (await api.call('GET', `/agent/session/${session}`)).json;
  const chat = async (message: string, more: Record<string, unknown> = {}): Promise<string> => {
    const body = { message, user_id: 'ada', agent_id: agent, ...more };
    const { status, json, text } = await api.call('POST', '/agent/chat', { body });
    assert.equal(status, 202, text);
    return json.session_id;
  };
  const is = (session: string, status: string) =>
    waitUntil(`the session is ${status}`, async () => (await read(session)).status === status);
  /** As if the session's newest turn had ended so long ago. */
  const passes = (run: string, seconds: number) => ageIdleRun(api.context.db, run, seconds);

  it('for a day has its run completed, and goes on in another one with all that was said', async () => {
    assert.equal(LIMITS.idleSeconds, DAY_SECONDS);
    const name = randomUUID();
    const [old, young, asked] = [
      await chat(`say ${name}`),
      await chat('say young'),
      await chat('call ask_user {"question":"How much?"} | say never'),
    ];
    for (const session of [old, young]) await is(session, 'completed');
    await is(asked, 'waiting_approval');
    const run = (await read(old)).run_id;
    await passes(run, DAY_SECONDS + 60);
    await passes((await read(young)).run_id, DAY_SECONDS - 60);
    await passes((await read(asked)).run_id, 2 * DAY_SECONDS);
    assert.deepEqual(await maintain(api.context, 'expire-idle'), { expired: 1 });
    const { json } = await api.call('GET', `/v1/runs/${run}`);
    assert.deepEqual([json.status, json.stop_reason], ['completed', 'idle']);
    assert.deepEqual([(await read(old)).status, (await read(old)).archived], ['completed', false]);
    assert.equal((await read(asked)).status, 'waiting_approval');
    await chat('say back', { session_id: old });
    await waitUntil('it has the answer', async () => (await read(old)).messages.length === 4);
    assert.notEqual((await read(old)).run_id, run);
    const [again] = api.model.asked('say back');
    assert.match(JSON.stringify(again?.messages), new RegExp(name));
  });

  it('goes on in its run where something is said just before that is completed', async () => {
    const session = await chat('say one');
    await is(session, 'completed');
    const run = (await read(session)).run_id;
    await passes(run, DAY_SECONDS + 60);
    const { db } = api.context;
    const idle = await listIdleRuns(db, { idleSeconds: LIMITS.idleSeconds, limit: LIMITS.sweepRows });
    const seen = idle.find(({ id }) => id === run);
    assert.ok(seen);
    await chat('say two', { session_id: session });
    await waitUntil('it has the answer', async () => (await read(session)).messages.length === 4);
    await is(session, 'completed');
    const found = { tenantId: seen.tenant_id, runId: run, seq: seen.last_seq };
    assert.equal(await expireRun(api.context, found), false);
    assert.equal((await api.call('GET', `/v1/runs/${run}`)).json.status, 'awaiting_human');
    const lost = { ...db, withTenant: () => Promise.reject(new TypeError('a fault of ours')) };
    await assert.rejects(expireRun({ ...api.context, db: lost }, found), /a fault of ours/);
  });
});
