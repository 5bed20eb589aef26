/** Decisions on the plans of a session that come twice, too late, or are followed by something else. */
import assert from 'node:assert/strict';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { typesOf, watchSession } from '../support/watch-session.ts';
import { waitUntil } from '../support/wait-until.ts';

const SUM = 'calculator {"expression":"6*7"}';

describe('A plan of a session', () => {
  let api: ScriptedService;
  before(async () => {
    api = await startScriptedService();
  });
  after(() => api.close());

  const read = async (session: string) => (await api.call('GET', `/agent/session/${session}`)).json;
  const until = async (session: string, ...statuses: string[]) => {
    await waitUntil(`it is ${statuses.join(' or ')}`, async () => statuses.includes((await read(session)).status));
    return read(session);
  };
  /** A session at level 0 with the plan that it waits with. */
  const propose = async (message: string): Promise<{ session_id: string; plan_id: string }> => {
    const body = { message, user_id: 'ada', agent_id: await api.newAgent(), autonomy_level: 0 };
    const { status, json, text } = await api.call('POST', '/agent/chat', { body });
    assert.equal(status, 202, text);
    const { pending_plan: plan } = await until(json.session_id, 'waiting_approval');
    return { session_id: json.session_id, plan_id: plan.plan_id };
  };
  const decide = (what: string, body: object) => api.call('POST', `/agent/${what}`, { body });

  it('that was interrupted says so where it is executed again', async () => {
    const plan = await propose(`call ${SUM} & confirm {} | say never`);
    assert.equal((await decide('execute', plan)).status, 200);
    await until(plan.session_id, 'executing');
    await decide('interrupt', { session_id: plan.session_id });
    const again = await decide('execute', plan);
    assert.deepEqual([again.status, again.json.status_of_plan], [409, 'interrupted']);
    assert.match(again.json.detail, /The plan was interrupted before all of its calls had a result/);
  });

  it('that was carried out says what came of it while another one waits, and after the answer that', async () => {
    const plan = await propose(`call ${SUM} & calculator {"expression":"x"} | call ${SUM} | say It is 42.`);
    await decide('execute', plan);
    const second = async () => (await read(plan.session_id)).pending_plan?.plan_id ?? plan.plan_id;
    await waitUntil('a second plan waits', async () => (await second()) !== plan.plan_id);
    const { status, json } = await decide('execute', plan);
    assert.deepEqual([status, json.status], [200, 'waiting_approval']);
    assert.match(json.result, /^calculator: \{"result": ?42\}\ncalculator: \S.*/);
    await decide('execute', { ...plan, plan_id: await second() });
    await until(plan.session_id, 'completed', 'completed_with_errors');
    assert.equal((await decide('execute', plan)).json.result, 'It is 42.');
  });

  it('is rejected once, however often that is asked for; another decision before or after it is refused', async () => {
    const plan = await propose(`call ${SUM} | say never`);
    const { run_id } = await read(plan.session_id);
    const once = await Promise.all(Array.from({ length: 3 }, () => decide('reject', { ...plan, reason: 'no' })));
    const log = async () => (await api.call('GET', `/v1/runs/${run_id}/events?limit=200`)).json.events;
    const before = await log();
    for (const { status, json } of [...once, await decide('reject', plan)]) {
      assert.deepEqual([status, json], [200, { status: 'idle', message: 'Plan rejected' }]);
    }
    assert.deepEqual(await log(), before);
    assert.equal(before.filter(({ type }: { type: string }) => type === 'plan.rejected').length, 1);
    for (const what of ['execute', 'refine']) {
      assert.equal((await decide(what, { ...plan, ...(what === 'refine' && { feedback: 'x' }) })).status, 409, what);
    }
    const refined = await propose(`call ${SUM} | call ${SUM} | say never`);
    await decide('refine', { ...refined, feedback: 'another' });
    const next = async () => (await read(refined.session_id)).pending_plan?.plan_id ?? refined.plan_id;
    await waitUntil('another plan waits', async () => (await next()) !== refined.plan_id);
    assert.equal((await decide('reject', refined)).status, 409);
    assert.equal((await decide('refine', { ...refined, feedback: 'another' })).status, 409);
    assert.equal((await decide('reject', { ...refined, plan_id: await next() })).status, 200);
    assert.equal((await decide('reject', refined)).status, 409, 'it is the other one that was rejected');
  });

  it('shows what is decided on, and no call that was refused at once', async () => {
    const when = 'tool == "calculator" && arguments.expression == "1+1"';
    const rule = { name: 'no ones', when, decision: 'block', reason: 'no ones' };
    assert.equal((await api.call('POST', '/v1/policies', { body: rule })).status, 201);
    const plan = await propose(`call calculator {"expression":"1+1"} & confirm {} & ${SUM} | say done`);
    const { pending_plan: shown, run_id } = await read(plan.session_id);
    const { json } = await api.call('GET', `/v1/approvals?status=pending&run_id=${run_id}`);
    const decided = json.approvals[0].arguments.steps.map(({ tool_call_id }: { tool_call_id: string }) => tool_call_id);
    const ids = (steps: { tool_call_id: string }[]) => steps.map(({ tool_call_id }) => tool_call_id);
    assert.deepEqual([ids(shown.steps), shown.tool_count, decided.length], [decided, 2, 2]);
    assert.equal((await decide('refine', { ...plan, feedback: 'in words' })).status, 202);
    assert.equal((await until(plan.session_id, 'completed', 'completed_with_errors')).status, 'completed_with_errors');
    const headers = { authorization: `Bearer ${api.key}` };
    const watched = await watchSession({ url: api.url, session: plan.session_id, headers, after: 0 });
    await watched.until('the turn is over', (seen) => seen.some(({ type }) => type === 'completed_with_errors'));
    watched.socket.terminate();
    const proposed = watched.frames.find(({ type }) => type === 'plan_proposed');
    assert.deepEqual(
      [proposed?.payload.steps?.map(({ tool }) => tool), proposed?.payload.tool_count],
      [['confirm', 'calculator'], 2],
    );
  });

  it('has errors where a rule denies a call of it, however few they are, and none where a person refuses the whole', async () => {
    const framesOf = async (session: string) => {
      const headers = { authorization: `Bearer ${api.key}` };
      const watched = await watchSession({ url: api.url, session, headers, after: 0 });
      await watched.until('the turn is over', (seen) => seen.some(({ type }) => type.startsWith('completed')));
      watched.socket.terminate();
      return typesOf(watched.frames).at(-1);
    };
    const answered = (session: string) => until(session, 'completed', 'completed_with_errors');
    for (const calls of [[SUM], [SUM, SUM, SUM]]) {
      const { session_id, plan_id } = await propose(`call ${calls.join(' & ')} | say done`);
      const { run_id } = await read(session_id);
      const { json } = await api.call('GET', `/v1/approvals?status=pending&run_id=${run_id}`);
      assert.equal(json.approvals[0].plan_id, plan_id);
      await api.call('POST', `/v1/approvals/${json.approvals[0].id}`, { body: { decision: 'deny' } });
      assert.equal((await answered(session_id)).status, 'completed');
      assert.equal(await framesOf(session_id), 'completed');
    }
    const refined = await propose(`call ${SUM} | say done`);
    assert.equal((await decide('refine', { ...refined, feedback: 'in words' })).status, 202);
    assert.equal((await answered(refined.session_id)).status, 'completed');
    const lapsing = await Promise.all(
      [[SUM], [SUM, SUM, SUM]].map((calls) => propose(`call ${calls.join(' & ')} | say done`)),
    );
    const rule = { name: 'no sums', when: 'tool == "calculator"', decision: 'block', reason: 'no sums' };
    assert.equal((await api.call('POST', '/v1/policies', { body: rule })).status, 201);
    for (const plan of lapsing) {
      assert.equal((await decide('execute', plan)).status, 409);
      assert.equal((await answered(plan.session_id)).status, 'completed_with_errors');
      assert.equal(await framesOf(plan.session_id), 'completed_with_errors');
    }
    for (const calls of [[SUM], [SUM, SUM, SUM]]) {
      const body = { message: `call ${calls.join(' & ')} | say done`, user_id: 'ada', agent_id: await api.newAgent() };
      const { session_id } = (await api.call('POST', '/agent/chat', { body })).json;
      assert.equal((await answered(session_id)).status, 'completed_with_errors');
      assert.equal(await framesOf(session_id), 'completed_with_errors');
    }
  });
});
