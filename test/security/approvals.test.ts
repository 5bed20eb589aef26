import assert from 'node:assert/strict';
import { attack, openArena, type Arena, type Played } from '../support/red-team.ts';
import { untilRun } from '../support/runs.ts';

describe('Approvals that were not given', () => {
  let arena: Arena;

  before(async () => {
    arena = await openArena();
    const input_schema = { type: 'object', properties: { amount: { type: 'number', maximum: 1000 } } };
    await arena.addTool('pay', { risk_level: 'WRITE_HIGH_RISK', input_schema });
  });
  after(() => arena.close());

  const ask = async (amount: number, agent: Record<string, unknown> = {}) => {
    const played = await arena.play(`call pay {"amount":${amount}} | say over`, { tools: ['pay'], ...agent });
    assert.equal(played.status, 'awaiting_human');
    const listed = await arena.call('GET', `/v1/approvals?status=pending&run_id=${played.run}`);
    return { ...played, approval: listed.json.approvals[0] as { id: string; digest: string } };
  };
  const decide = (id: string, body: unknown, key?: string | null) =>
    arena.call('POST', `/v1/approvals/${id}`, { body, ...(key !== undefined && { key }) });
  const paidBy = ({ run }: Pick<Played, 'run'>) =>
    arena.reached('pay').filter(({ headers }) => headers['x-drover-run-id'] === run);
  const newKey = async (scopes: string[]) =>
    (await arena.call('POST', '/v1/api-keys', { body: { name: 'attacker', scopes } })).json.key as string;

  attack('P01', ['an approval is sent again for another call', 'it is for its own call alone'], async () => {
    const [first, second] = [await ask(1), await ask(2)];
    assert.equal((await decide(first.approval.id, { decision: 'approve' })).status, 200);
    await untilRun(arena, first.run);
    await decide(first.approval.id, { decision: 'approve' });
    assert.equal(paidBy(first).length, 1);
    assert.equal(paidBy(second).length, 0);
  });

  attack('P02', ['a decision that was made is turned round', '409'], async () => {
    const asked = await ask(3);
    await decide(asked.approval.id, { decision: 'deny' });
    assert.equal((await decide(asked.approval.id, { decision: 'approve' })).status, 409);
    await untilRun(arena, asked.run);
    assert.equal(paidBy(asked).length, 0);
  });

  attack('P03', ['twenty approvals at once', 'one call'], async () => {
    const asked = await ask(4);
    await Promise.all(Array.from({ length: 20 }, () => decide(asked.approval.id, { decision: 'approve' })));
    await untilRun(arena, asked.run);
    assert.equal(paidBy(asked).length, 1);
  });

  attack('P04', ['an approval that brings arguments of its own', '400, and nothing is called'], async () => {
    const asked = await ask(5);
    const answer = await decide(asked.approval.id, { decision: 'approve', arguments: { amount: 999 } });
    assert.equal(answer.status, 400, answer.text);
    const told = await decide(asked.approval.id, { decision: 'approve', result: { paid: true } });
    assert.equal(told.status, 400, told.text);
    assert.equal(paidBy(asked).length, 0);
  });

  attack('P05', ["an edit beyond the tool's schema", '422, and nothing is called'], async () => {
    const asked = await ask(6);
    const answer = await decide(asked.approval.id, { decision: 'edit', arguments: { amount: 5000 } });
    assert.equal(answer.status, 422, answer.text);
    assert.equal(paidBy(asked).length, 0);
  });

  attack('P06', ['an edit into what a policy blocks', '422, and nothing is called'], async () => {
    const body = { name: 'none of 777', when: 'tool == "pay" && arguments.amount == 777', decision: 'block' };
    assert.equal((await arena.call('POST', '/v1/policies', { body })).status, 201);
    const asked = await ask(7);
    const answer = await decide(asked.approval.id, { decision: 'edit', arguments: { amount: 777 } });
    assert.equal(answer.status, 422, answer.text);
    assert.equal(paidBy(asked).length, 0);
  });

  attack('P07', ['a decision with a key that may only run agents', '403'], async () => {
    const asked = await ask(8);
    const key = await newKey(['runs:write', 'runs:read']);
    assert.equal((await decide(asked.approval.id, { decision: 'approve' }, key)).status, 403);
    assert.equal(paidBy(asked).length, 0);
  });

  attack('P08', ["a decision with another tenant's admin key", '404'], async () => {
    const asked = await ask(9);
    const other = await arena.call('POST', '/v1/tenants', { body: { name: 'other' } });
    assert.equal((await decide(asked.approval.id, { decision: 'approve' }, other.json.key)).status, 404);
    assert.equal(paidBy(asked).length, 0);
  });

  attack('P09', ['a signal of type approval, without the scope to approve', 'nothing is called'], async () => {
    const asked = await ask(10);
    const key = await newKey(['runs:write', 'runs:read']);
    const body = { type: 'approval', payload: { approval_id: asked.approval.id, decision: 'approve' } };
    const answer = await arena.call('POST', `/v1/runs/${asked.run}/signals`, { body, key });
    assert.ok(answer.status >= 400, answer.text);
    assert.equal(paidBy(asked).length, 0);
  });

  attack('P10', ['a policy that blocks comes while the call waits', 'approved, it is not made'], async () => {
    const asked = await ask(11);
    const body = { name: 'none of 11', when: 'tool == "pay" && arguments.amount == 11', decision: 'block' };
    assert.equal((await arena.call('POST', '/v1/policies', { body })).status, 201);
    await decide(asked.approval.id, { decision: 'approve' });
    assert.equal(paidBy(asked).length, 0);
  });

  attack('P11', ['the tool is deleted while its call waits', 'approved, it is not made'], async () => {
    const id = await arena.addTool('gone', { risk_level: 'WRITE_HIGH_RISK' });
    const { run, status } = await arena.play('call gone {} | say over', { tools: ['gone'] });
    assert.equal(status, 'awaiting_human');
    const [approval] = (await arena.call('GET', `/v1/approvals?status=pending&run_id=${run}`)).json.approvals;
    assert.equal((await arena.call('DELETE', `/v1/tools/${id}`)).status, 204);
    await decide(approval.id, { decision: 'approve' });
    assert.equal(arena.reached('gone').length, 0);
  });

  attack('P12', ['approval after the run was cancelled', '409, and nothing is called'], async () => {
    const asked = await ask(12);
    await arena.call('POST', `/v1/runs/${asked.run}/cancel`, { body: {} });
    assert.equal((await decide(asked.approval.id, { decision: 'approve' })).status, 409);
    assert.equal(paidBy(asked).length, 0);
  });

  attack('P13', ['a run that raises its own autonomy without the scope', '403'], async () => {
    const key = await newKey(['runs:write', 'runs:read', 'agents:write', 'agents:read']);
    const agent = await arena.call('POST', '/v1/agents', { body: { name: 'low', tools: ['pay'] }, key });
    const body = { input: { message: 'call pay {"amount":13}' }, config: { autonomy_level: 3 } };
    const answer = await arena.call('POST', `/v1/agents/${agent.json.id}/runs`, { body, key });
    assert.equal(answer.status, 403, answer.text);
  });

  attack('P14', ['a high-risk tool called directly without admin', '403'], async () => {
    const before = arena.reached('pay').length;
    const key = await newKey(['tools:execute', 'tools:read']);
    const tools = await arena.call('GET', '/v1/tools?limit=200');
    const id = tools.json.tools.find((tool: { name: string }) => tool.name === 'pay').id;
    const answer = await arena.call('POST', `/v1/tools/${id}/execute`, { body: { input: { amount: 1 } }, key });
    assert.equal(answer.status, 403, answer.text);
    assert.equal(arena.reached('pay').length, before);
  });
});
