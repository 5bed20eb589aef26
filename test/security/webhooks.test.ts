import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { attack, openArena, type Arena } from '../support/red-team.ts';
import { readLog, untilRun } from '../support/runs.ts';
import { waitUntil } from '../support/wait-until.ts';

interface Heard {
  type: string;
  data: { run_id: string; seq: number; payload: Record<string, unknown> };
}

describe('What webhooks hear', () => {
  const canary = `Canary${randomUUID().replaceAll('-', '')}`;
  let arena: Arena;

  before(async () => {
    arena = await openArena();
    const pay = { input_schema: { type: 'object' }, risk_level: 'WRITE_HIGH_RISK' };
    await arena.addTool('pay', pay);
    for (const name of ['look', 'fail']) await arena.addTool(name, { risk_level: 'READ_ONLY' });
    arena.answers.set('/look', () => ({ body: JSON.stringify({ found: canary }) }));
    arena.answers.set('/fail', () => ({ status: 400, body: JSON.stringify({ error: canary }) }));
    const hook = { url: `${arena.server.url}/heard`, events: ['*'] };
    assert.equal((await arena.call('POST', '/v1/webhooks', { body: hook })).status, 201);
  });
  after(() => arena.close());

  const told = () => arena.reached('heard').map(({ body }) => JSON.parse(body) as Heard);
  /** What was told of the run, once all of its log has been. */
  const heardOf = async (run: string) => {
    const log = await readLog(arena, run);
    const heard = () => told().filter(({ data }) => data.run_id === run);
    await waitUntil('all of the log is told', () => new Set(heard().map(({ data }) => data.seq)).size === log.length);
    return { log, heard: heard() };
  };
  const tools = ['pay', 'look', 'fail', 'ask_user', 'wait_for_webhook'];
  const signal = async (run: string, type: string, payload: unknown) => {
    const answer = await arena.call('POST', `/v1/runs/${run}/signals`, { body: { type, payload } });
    assert.ok(answer.status < 300, answer.text);
  };
  const waitsFor = (run: string, type: string) =>
    waitUntil(`the run waits for ${type}`, async () => {
      const { json } = await arena.call('GET', `/v1/runs/${run}`);
      return json.waiting_for?.type === type;
    });

  attack(
    'W01',
    ['a webhook for everything, and content wherever a run can hold some', 'ids and outcomes'],
    async () => {
      const said = JSON.stringify({ said: canary });
      const steps = [
        `call look ${said} & fail ${said} & no_such_${canary} ${said}`,
        `call ask_user {"question":"${canary}?"}`,
        `call wait_for_webhook {"name":"${canary}"}`,
        `call pay ${said}`,
        `call pay ${said}`,
        `say ${canary}`,
      ];
      const { run } = await arena.play(steps.join(' | '), { tools });
      await waitsFor(run, 'user');
      await signal(run, 'user', { message: canary });
      await waitsFor(run, 'webhook');
      const body = { type: 'webhook', name: canary, payload: { told: canary } };
      assert.ok((await arena.call('POST', `/v1/runs/${run}/signals`, { body })).status < 300);
      for (const decision of ['deny', 'approve']) {
        await waitsFor(run, 'approval');
        const { json } = await arena.call('GET', '/v1/approvals?status=pending');
        const { id } = json.approvals.find((each: { run_id: string }) => each.run_id === run);
        const decided = await arena.call('POST', `/v1/approvals/${id}`, { body: { decision, reason: canary } });
        assert.equal(decided.status, 200, decided.text);
        if (decision === 'deny') await waitUntil('it is decided', async () => !(await isPending(id)));
      }
      await untilRun(arena, run);
      const cancelled = await arena.play(`call ask_user {"question":"${canary}?"}`, { tools });
      await arena.call('POST', `/v1/runs/${cancelled.run}/cancel`, { body: { reason: canary } });
      const all = [await heardOf(run), await heardOf(cancelled.run)];
      const withContent = new Set(
        all.flatMap(({ log }) => log.filter((event) => JSON.stringify(event).includes(canary)).map(({ type }) => type)),
      );
      for (const type of [
        'turn.started',
        'input.requested',
        'signal.received',
        'run.cancel_requested',
        'approval.denied',
      ])
        assert.ok(withContent.has(type), `the log has content in ${type}`);
      for (const { heard } of all) {
        for (const each of heard) assert.ok(!JSON.stringify(each).includes(canary), JSON.stringify(each));
      }
      const asked = all[0]?.heard.find(({ type }) => type === 'approval.requested');
      assert.equal(asked?.data.payload['tool'], 'pay');
      assert.match(String(asked?.data.payload['approval_id']), /^[0-9a-f-]{36}$/);
    },
  );

  async function isPending(id: string): Promise<boolean> {
    return (await arena.call('GET', `/v1/approvals/${id}`)).json.status === 'pending';
  }
});
