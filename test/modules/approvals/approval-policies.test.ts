import assert from 'node:assert/strict';
import { DroverError } from '../../../core/errors.ts';
import { UNKNOWN_OUTCOME } from '../../../core/ledger.ts';
import { newId } from '../../../lib/new-id.ts';
import type { PolicyDefinition } from '../../../core/policy.ts';
import type { Caller } from '../../../core/caller.ts';
import { decideApproval, type ApprovalDecision } from '../../../modules/approvals/decide-approval.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { retryRun } from '../../../modules/runs/retry-run.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { createPolicy, removePolicy, updatePolicy } from '../../../modules/governance/write-policy.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { approvalsOfRun } from '../../support/queries/approvals.ts';
import { callOfRun, changeArguments } from '../../support/queries/tool-calls.ts';

const PAY = { name: 'pay', risk_level: 'WRITE_HIGH_RISK' as const };
const NOTE = { name: 'note' };
const TOLD = { execution_config: { on_unknown: 'tell_model' as const } };
const KEY = newId();
const OTHER = newId();

interface Approval {
  id: string;
  status: string;
  digest: string;
  arguments: unknown;
  original_arguments: unknown;
  policy: { name: string; version: number } | null;
  message: string;
  four_eyes: boolean;
}

describe('Approvals and policies', () => {
  let engine: Engine;
  const made: string[] = [];

  before(async () => {
    engine = await openEngine();
  });

  beforeEach(() => engine.toolsAnswer(() => undefined));

  afterEach(async () => {
    for (const id of made.splice(0)) await inTenant((tx) => removePolicy(tx, caller(), id));
  });

  after(async () => {
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    await engine.close();
    assert.deepEqual(differences, []);
  });

  const caller = (keyId = KEY): Caller => ({ ...engine.caller, keyId });
  const inTenant: Engine['context']['db']['withTenant'] extends (tenant: string, work: infer W) => unknown
    ? (work: W) => Promise<unknown>
    : never = (work) => engine.context.db.withTenant(engine.tenantId, work);

  async function policy(rule: Partial<PolicyDefinition>): Promise<string> {
    const full = { name: newId(), priority: 1, when: 'true', decision: 'block' as const, reason: 'not now', ...rule };
    const { db } = engine.context;
    const { id } = await db.withTenant(engine.tenantId, (tx) => createPolicy(tx, caller(), full));
    made.push(id);
    return id;
  }

  /** A run that has asked for one call, driven until it waits. */
  async function asked(tool: Parameters<Engine['agent']>[1], definition: Parameters<Engine['agent']>[0] = {}) {
    const agent = await engine.agent(definition, tool);
    const name = tool?.[0]?.name ?? '';
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, name), input: { amount: 7 } }) : text('I see')));
    const { run } = await engine.start(agent, 'hello', { requestedBy: KEY });
    await engine.drive(run);
    return run;
  }

  const approvals = (run: string) => approvalsOfRun<Approval>(engine, run);
  async function open(run: string): Promise<Approval> {
    const pending = (await approvals(run)).filter(({ status }) => status === 'pending');
    assert.equal(pending.length, 1);
    return pending[0] as Approval;
  }
  const decide = (approval: Approval, decided: ApprovalDecision, keyId = OTHER) =>
    decideApproval(engine.context, { tenantId: engine.tenantId, id: approval.id, by: caller(keyId) }, decided);
  const refusedWith = (status: number, says: RegExp) => (error: unknown) =>
    error instanceof DroverError && error.status === status && says.test(error.message);
  const callOf = (run: string) => callOfRun(engine, run);
  const told = () => JSON.stringify(engine.model.requests.at(-1)?.body);

  it('name the policy that asks and its reason, and bind to its version', async () => {
    await policy({ decision: 'require_approval', name: 'four thousand', reason: 'too much for one' });
    const ruled = await open(await asked([NOTE]));
    assert.deepEqual(
      [ruled.policy?.name, ruled.policy?.version, ruled.message],
      ['four thousand', 1, 'too much for one'],
    );
    const plain = await open(await asked([PAY], { autonomy_level: 3 }));
    assert.notEqual(plain.digest, ruled.digest);
  });

  it('may be refused to the key that asked for the turn, by a policy or by the agent', async () => {
    const run = await asked([PAY], { execution_config: { four_eyes: true } });
    const approval = await open(run);
    assert.equal(approval.four_eyes, true);
    await assert.rejects(decide(approval, { decision: 'approve' }, KEY), refusedWith(403, /four eyes/));
    assert.equal((await open(run)).status, 'pending');
    await decide(approval, { decision: 'approve' }, OTHER);
    await engine.finish(run);
    assert.equal(engine.tools.seen.length, 1);

    await policy({ decision: 'require_approval', four_eyes: true });
    const second = await open(await asked([NOTE]));
    await assert.rejects(decide(second, { decision: 'approve' }, KEY), refusedWith(403, /four eyes/));
    await assert.rejects(
      decide(second, { decision: 'edit', arguments: { amount: 1 } }, KEY),
      refusedWith(403, /four eyes/),
    );
    assert.equal((await decide(second, { decision: 'deny' }, KEY)).status, 'denied');
  });

  it('are refused to the key that asked for the turn also where another one has retried it, and then a third', async () => {
    let run = await asked([PAY], { execution_config: { four_eyes: true } });
    for (const requestedBy of [OTHER, newId()]) {
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
      engine.say((request, n) =>
        n === 0 ? use({ name: offered(request, 'pay'), input: { amount: 7 } }) : text('paid'),
      );
      const idempotency = { tenantId: engine.tenantId, route: 'retry', body: null };
      const again = {
        tenantId: engine.tenantId,
        runId: run,
        requestedBy,
        mayRaiseAutonomy: true,
        traceparent: undefined,
        idempotency,
      };
      run = (await retryRun(engine.context, again)).body.new_run_id;
      await engine.drive(run);
      const approval = await open(run);
      for (const key of [KEY, OTHER])
        await assert.rejects(decide(approval, { decision: 'approve' }, key), refusedWith(403, /four eyes/));
    }
    await decide(await open(run), { decision: 'approve' }, newId());
    await engine.finish(run);
    assert.equal(engine.tools.seen.length, 1);
  });

  it('are refused to a key whose words the model has read in a decision, and not to one that merely decided', async () => {
    const agent = await engine.agent({ execution_config: { four_eyes: true } }, [PAY]);
    engine.say((request, n) => (n < 6 ? use({ name: offered(request, 'pay'), input: { amount: n } }) : text('paid')));
    const { run } = await engine.start(agent, 'pay', { requestedBy: KEY });
    await engine.finish(run);
    const decides = async (decided: ApprovalDecision, key: string) => {
      await decide(await open(run), decided, key);
      await engine.finish(run);
      await engine.makeCalls(run);
      await engine.finish(run);
    };
    await decides({ decision: 'deny' }, OTHER);
    await decides({ decision: 'approve', reason: 'as agreed' }, OTHER);
    await decides({ decision: 'approve' }, OTHER);
    const [editor, denier] = [newId(), newId()];
    await decides({ decision: 'edit', arguments: { amount: 1 } }, editor);
    await decides({ decision: 'deny', reason: 'pay B instead' }, denier);
    for (const key of [editor, denier])
      await assert.rejects(decide(await open(run), { decision: 'approve' }, key), refusedWith(403, /four eyes/));
    await decides({ decision: 'approve' }, OTHER);
    assert.equal(engine.tools.seen.length, 4);
  });

  it('are needed of another key for a call of unknown outcome to be made again, and no results of its own make one', async () => {
    const agent = await engine.agent({ execution_config: { four_eyes: true } }, [PAY]);
    engine.say((request, n) => (n < 2 ? use({ name: offered(request, 'pay'), input: { amount: n } }) : text('paid')));
    const { run } = await engine.start(agent, 'pay', { requestedBy: KEY });
    await engine.finish(run);
    await decide(await open(run), { decision: 'approve' });
    await engine.drive(run);
    const getsLost = async () => {
      const working = door();
      engine.toolsAnswer(async () => {
        await working.pass();
        return { status: 200, body: {} };
      });
      const making = engine.makeCalls(run);
      await working.reached;
      await engine.everyoneDies();
      await engine.makeCalls(run);
      await engine.drive(run);
      return { making, working };
    };
    const lost = [await getsLost()];
    await assert.rejects(decide(await open(run), { decision: 'rerun' }, KEY), refusedWith(403, /four eyes/));
    await decide(await open(run), { decision: 'rerun' }, OTHER);
    await engine.drive(run);
    lost.push(await getsLost());
    const teller = newId();
    await decide(await open(run), { decision: 'happened', result: { said: 'pay B' } }, teller);
    for (const { making, working } of lost) {
      working.open();
      await making;
    }
    await engine.finish(run);
    await assert.rejects(decide(await open(run), { decision: 'approve' }, teller), refusedWith(403, /four eyes/));
    assert.equal((await decide(await open(run), { decision: 'approve' }, OTHER)).status, 'approved');
  });

  it('are refused to the key that asked for the turn where the policy asks for four eyes only since then', async () => {
    const id = await policy({ decision: 'require_approval' });
    const run = await asked([NOTE]);
    const approval = await open(run);
    assert.equal(approval.four_eyes, false);
    await inTenant((tx) => updatePolicy(tx, caller(), { id, patch: { four_eyes: true } }));
    await assert.rejects(decide(approval, { decision: 'approve' }, KEY), refusedWith(403, /four eyes/));
    assert.equal((await open(run)).status, 'pending');
    await decide(approval, { decision: 'approve' }, OTHER);
    await engine.finish(run);
    assert.equal(engine.tools.seen.length, 1);
  });

  it('lapse where a policy blocks the call by now: 409, and the model is told', async () => {
    const run = await asked([PAY]);
    const approval = await open(run);
    await policy({ reason: 'payments are stopped' });
    await assert.rejects(decide(approval, { decision: 'approve' }), refusedWith(409, /lapsed: .*payments are stopped/));
    assert.equal((await approvals(run))[0]?.status, 'expired');
    await engine.finish(run);
    assert.equal(engine.tools.seen.length, 0);
    assert.match(told(), /payments are stopped/);
    await assert.rejects(decide(approval, { decision: 'approve' }), refusedWith(409, /expired/));
  });

  it('do not help a call that a policy blocks between the approval and the call', async () => {
    const run = await asked([PAY]);
    await decide(await open(run), { decision: 'approve' });
    await engine.drive(run);
    await policy({ reason: 'stopped in the last moment' });
    await engine.makeCalls(run);
    await engine.finish(run);
    assert.deepEqual([(await callOf(run)).status, engine.tools.seen.length], ['denied', 0]);
    assert.match(told(), /stopped in the last moment/);
  });

  it('are asked for anew where another policy asks by the time of the call', async () => {
    const run = await asked([PAY]);
    await decide(await open(run), { decision: 'approve' });
    await engine.drive(run);
    const id = await policy({ decision: 'require_approval', reason: 'a new rule' });
    await engine.makeCalls(run);
    assert.equal(engine.tools.seen.length, 0);
    await engine.drive(run);
    const second = await open(run);
    assert.equal(second.message, 'a new rule');
    await decide(second, { decision: 'approve' });
    await engine.drive(run);
    // A new version of a rule is a rule that nobody has approved under.
    await inTenant((tx) => updatePolicy(tx, caller(), { id, patch: { reason: 'an even newer rule' } }));
    await engine.makeCalls(run);
    await engine.drive(run);
    const third = await open(run);
    assert.equal(third.policy?.version, 2);
    await decide(third, { decision: 'approve' });
    await engine.finish(run);
    assert.deepEqual([await callOf(run), engine.tools.seen.length], [{ status: 'succeeded', attempt: 1 }, 1]);
  });

  it('are not needed by a call that waits in the queue, and a policy stops it there all the same', async () => {
    const run = await asked([NOTE]);
    await policy({ reason: 'no notes any more' });
    await engine.makeCalls(run);
    await engine.finish(run);
    assert.deepEqual([(await callOf(run)).status, engine.tools.seen.length], ['denied', 0]);
  });

  it('stop the next attempt of a call that its driver makes', async () => {
    const hasty = { retry_config: { max_retries: 3, backoff_ms: 1 } };
    engine.toolsAnswer((_request, n) => {
      if (n > 0) return undefined;
      return policy({ reason: 'not another time' }).then(() => ({ status: 503, body: {} }));
    });
    const tool = { ...NOTE, execution: { inline: true, ...hasty }, annotations: { idempotentHint: true } };
    const run = await asked([tool], TOLD);
    await engine.finish(run);
    assert.equal(engine.tools.seen.length, 1);
    assert.match(told(), /not another time/);
    assert.ok(told().includes(UNKNOWN_OUTCOME), 'the first one may have had its effect');
    assert.deepEqual(await callOf(run), { status: 'unknown', attempt: 1 });
  });

  describe('that meet a call between two of its attempts', () => {
    const execution = { retry_config: { max_retries: 3, backoff_ms: 1 } };
    /** A call whose first attempt was answered with this status, and that has met a rule since then. */
    const met = async (
      status: number,
      rule: Partial<PolicyDefinition>,
      definition: Parameters<typeof asked>[1] = TOLD,
    ) => {
      engine.toolsAnswer((_request, n) => (n === 0 ? Promise.resolve({ status, body: {} }) : undefined));
      const run = await asked([{ ...NOTE, execution, annotations: { idempotentHint: true } }], definition);
      await engine.makeCalls(run);
      assert.deepEqual(await callOf(run), { status: 'pending', attempt: 1 });
      await policy(rule);
      while ((await callOf(run)).status === 'pending') await engine.makeCalls(run);
      return run;
    };
    const isUnknown = async (run: string, why: RegExp) => {
      await engine.finish(run);
      assert.deepEqual([await callOf(run), engine.tools.seen.length], [{ status: 'unknown', attempt: 1 }, 1]);
      assert.match(told(), why);
      assert.ok(told().includes(UNKNOWN_OUTCOME));
    };

    const ASK = { decision: 'require_approval' as const, reason: 'ask first' };
    const met503 = async (definition?: Parameters<typeof asked>[1]) => {
      const run = await met(503, ASK, definition);
      await engine.drive(run);
      return { run, approval: await open(run) };
    };

    it('leave its outcome unknown where the first may have had its effect, and the model reads why', async () => {
      await isUnknown(await met(503, { reason: 'no notes now' }), /no notes now/);
    });

    it('have people asked what became of it, where the agent says so', async () => {
      const run = await met(503, {}, {});
      await engine.drive(run);
      const { id } = await open(run);
      assert.deepEqual([(await approvals(run)).length, (await callOf(run)).status], [1, 'unknown']);
      await decideApproval(engine.context, { tenantId: engine.tenantId, id }, { decision: 'give_up' });
      await isUnknown(run, /not now/);
    });

    it('deny it where the first surely had none', async () => {
      const run = await met(429, {});
      await engine.finish(run);
      assert.deepEqual([await callOf(run), engine.tools.seen.length], [{ status: 'denied', attempt: 1 }, 1]);
    });

    it('have it made again as it was, and with no other arguments', async () => {
      const { run, approval } = await met503();
      const edit = { decision: 'edit' as const, arguments: { amount: 1 } };
      await assert.rejects(decide(approval, edit), refusedWith(422, /may have had its effect/));
      await decide(approval, { decision: 'approve' });
      await engine.finish(run);
      assert.deepEqual(await callOf(run), { status: 'succeeded', attempt: 2 });
      const sent = engine.tools.seen.map(({ headers, body }) => `${String(headers['idempotency-key'])} ${body}`);
      assert.deepEqual([sent.length, new Set(sent).size], [2, 1]);
    });

    it('leave its outcome unknown as well where they ask for an approval that is denied', async () => {
      const { run, approval } = await met503();
      await decide(approval, { decision: 'deny', reason: 'certainly not' });
      await isUnknown(run, /A person denied the call: certainly not/);
    });

    it('leave its outcome unknown as well where they ask for an approval that nobody gives', async () => {
      const { run, approval } = await met503({
        execution_config: { ...TOLD.execution_config, approval_timeout_seconds: 0.001 },
      });
      await assert.rejects(decide(approval, { decision: 'approve' }), refusedWith(409, /expired/));
      await isUnknown(run, /Nobody approved the call in time/);
    });

    it('leave its outcome unknown as well where they ask for an approval that lapses', async () => {
      const { run, approval } = await met503();
      await policy({ reason: 'stopped for good', priority: 2 });
      await assert.rejects(decide(approval, { decision: 'approve' }), refusedWith(409, /lapsed/));
      await isUnknown(run, /stopped for good/);
    });
  });

  it('show what was asked and what a person made of it; the same decision again changes nothing, another is 409', async () => {
    const run = await asked([PAY]);
    const approval = await open(run);
    const edit = { decision: 'edit' as const, arguments: { amount: 1 } };
    const row = await decide(approval, edit);
    assert.deepEqual([row.arguments, row.original_arguments], [{ amount: 1 }, { amount: 7 }]);
    assert.notEqual(row.digest, approval.digest);
    assert.equal((await decide(approval, edit)).status, 'approved');
    await assert.rejects(decide(approval, { ...edit, arguments: { amount: 2 } }), refusedWith(409, /already/));
    await assert.rejects(decide(approval, { decision: 'approve' }), refusedWith(409, /already/));
    await engine.finish(run);
    assert.deepEqual(
      engine.tools.seen.map(({ body }) => JSON.parse(body)),
      [{ amount: 1 }],
    );
  });

  it('are refused for arguments that a policy blocks, and stay open', async () => {
    await policy({ when: 'arguments.amount > 100', reason: 'more than 100' });
    const run = await asked([PAY]);
    const approval = await open(run);
    await assert.rejects(
      decide(approval, { decision: 'edit', arguments: { amount: 500 } }),
      refusedWith(422, /more than 100/),
    );
    assert.equal((await open(run)).id, approval.id);
  });

  it('do not count once their time is over, whether anybody has noticed or not', async () => {
    const run = await asked([PAY], { execution_config: { approval_timeout_seconds: 0.001 } });
    await assert.rejects(decide(await open(run), { decision: 'approve' }), refusedWith(409, /expired/));
    await engine.finish(run);
    assert.equal(engine.tools.seen.length, 0);
    assert.match(told(), /Nobody approved the call in time/);
  });

  it('are for exactly the arguments that were shown (lesson 18): a ledger that says otherwise gets nothing', async () => {
    const run = await asked([PAY]);
    await decide(await open(run), { decision: 'approve' });
    await engine.drive(run);
    await changeArguments(engine, run, { amount: 7000 });
    await engine.makeCalls(run);
    await engine.finish(run);
    assert.deepEqual([(await callOf(run)).status, engine.tools.seen.length], ['denied', 0]);
  });
});
