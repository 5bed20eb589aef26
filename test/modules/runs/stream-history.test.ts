import assert from 'node:assert/strict';
import fc from 'fast-check';
import { SHOWN, toSse, type SseEvent } from '../../../api/runs/sse-view.ts';
import { newId } from '../../../lib/new-id.ts';
import { decideApproval, expireApproval, type ApprovalDecision } from '../../../modules/approvals/decide-approval.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { lookAhead } from '../../../modules/runs/stream-run.ts';
import { endDueWaits } from '../../../modules/waits/end-waits.ts';
import { postSignal } from '../../../modules/waits/post-signal.ts';
import { postToolResults } from '../../../modules/waits/post-tool-results.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { pendingApprovals } from '../../support/queries/approvals.ts';
import { storedRun } from '../../support/queries/runs.ts';
import { ledgerOfRun } from '../../support/queries/tool-calls.ts';
import { endWaits } from '../../support/queries/waits.ts';

/** What a model asks for, and what becomes of it: by a person, the client, another system, or the time. */
interface Scene {
  tools: string[];
  act: (run: string) => Promise<unknown>;
}

describe('What a stream shows of a run', () => {
  let engine: Engine;
  let agent: string;

  before(async () => {
    engine = await openEngine();
    agent = await engine.agent(
      { tools: ['ask_user', 'wait_for_webhook', 'sleep'], execution_config: { on_unknown: 'ask', max_turns: 20 } },
      [
        { name: 'look', risk_level: 'READ_ONLY' },
        { name: 'pay', risk_level: 'WRITE_HIGH_RISK' },
        { name: 'doubtful', execution: { retry_config: { max_retries: 0, backoff_ms: 1 } } },
        { name: 'confirm', transport: { type: 'client' } },
        { name: 'sign', transport: { type: 'client' }, risk_level: 'WRITE_HIGH_RISK' },
      ],
    );
  });
  after(() => engine.close());

  const ref = (run: string) => ({ tenantId: engine.tenantId, runId: run });
  const pending = (run: string) => pendingApprovals(engine, run);
  const decide = (decided: ApprovalDecision) => async (run: string) => {
    const [approval] = await pending(run);
    assert.ok(approval, 'nobody is asked');
    await decideApproval(engine.context, { tenantId: engine.tenantId, id: approval.id }, decided);
  };
  const expire = async (run: string) => {
    const [approval] = await pending(run);
    assert.ok(approval, 'nobody is asked');
    assert.ok(await expireApproval(engine.context, { tenantId: engine.tenantId, id: approval.id }));
  };
  const signal = (type: 'user' | 'webhook', payload: unknown) => (run: string) =>
    postSignal(engine.context, { ...ref(run), id: newId(), type, payload });
  const timeIsUp = async (run: string) => {
    await endWaits(engine, run);
    assert.equal(await endDueWaits(engine.context), 1);
  };
  const results = (is_error: boolean) => async (run: string) => {
    const ledger = await ledgerOfRun(engine, run);
    const calls = ledger.filter(({ mode, status }) => mode === 'wait' && status === 'running');
    const idempotency = { tenantId: engine.tenantId, route: 'test', body: null };
    await postToolResults(engine.context, {
      ...ref(run),
      agentId: agent,
      results: calls.map(({ tool_use_id }) => ({ tool_use_id, output: 'by the client', is_error })),
      idempotency,
    });
  };
  const both = (first: Scene['act'], second: Scene['act']) => async (run: string) => {
    await first(run);
    await goOn(run);
    await second(run);
  };
  const approve = decide({ decision: 'approve' });
  const edit = decide({ decision: 'edit', arguments: { amount: 1, to: 'another' } });
  const PLAN = ['look', 'pay', 'look'];
  const SCENES: Record<string, Scene> = {
    'an approved call': { tools: ['pay'], act: approve },
    'an edited call': { tools: ['pay'], act: edit },
    'a denied call': { tools: ['pay'], act: decide({ decision: 'deny', reason: 'too dear' }) },
    'a call that nobody decided on': { tools: ['pay'], act: expire },
    'a call that happened': { tools: ['doubtful'], act: decide({ decision: 'happened', result: { paid: 12 } }) },
    'a call that is made again': { tools: ['doubtful'], act: decide({ decision: 'rerun' }) },
    'a call that is given up': { tools: ['doubtful'], act: decide({ decision: 'give_up' }) },
    'a doubtful call that nobody decided on': { tools: ['doubtful'], act: expire },
    'an answered question': { tools: ['ask_user'], act: signal('user', { message: 'yes' }) },
    'a question without an answer': { tools: ['ask_user'], act: timeIsUp },
    'a webhook': { tools: ['wait_for_webhook'], act: signal('webhook', { n: 1 }) },
    'a webhook that did not come': { tools: ['wait_for_webhook'], act: timeIsUp },
    'the time': { tools: ['sleep'], act: timeIsUp },
    'a result of the client': { tools: ['confirm'], act: results(false) },
    'an error of the client': { tools: ['confirm'], act: results(true) },
    'a client that gave none': { tools: ['confirm'], act: timeIsUp },
    'an edited call of the client': { tools: ['sign'], act: both(edit, results(false)) },
    'an approved plan': { tools: PLAN, act: approve },
    'a denied plan': { tools: PLAN, act: decide({ decision: 'deny' }) },
    'a plan that nobody decided on': { tools: PLAN, act: expire },
  };

  const seen = new Map<string, SseEvent[]>();
  const lastOf = (frames: readonly SseEvent[]) => frames.at(-1)?.id ?? 0;
  const read = async (run: string, after: number): Promise<SseEvent[]> => {
    const { events } = await lookAhead(engine.context, { ...ref(run), after, types: SHOWN });
    return events.flatMap((event) => toSse(event) ?? []);
  };
  /** What somebody who watches has seen by now. */
  const follow = async (run: string): Promise<void> => {
    const frames = seen.get(run) ?? [];
    seen.set(run, [...frames, ...(await read(run, lastOf(frames)))]);
  };
  /** Drives until nothing is left to do, under somebody's eyes. */
  const goOn = async (run: string): Promise<void> => {
    for (let round = 0; round < 20; round++) {
      const end = await engine.drive(run);
      await follow(run);
      if (end !== 'yielded') return;
      await engine.makeCalls(run);
      await follow(run);
    }
    throw new Error('the run has no end');
  };
  /** A budget asks once in the middle of a run. */
  const approveBudget = async (run: string): Promise<void> => {
    const asked = (await pending(run)).find(({ tool_call_id, plan_id }) => tool_call_id === null && plan_id === null);
    if (!asked) return;
    await decideApproval(engine.context, { tenantId: engine.tenantId, id: asked.id }, { decision: 'approve' });
    await goOn(run);
  };

  const inputOf: Record<string, Record<string, unknown>> = {
    ask_user: { question: 'Shall I?' },
    wait_for_webhook: {},
    sleep: { seconds: 60 },
  };
  const play = async (scenes: readonly Scene[], isCancelled: boolean): Promise<string> => {
    engine.say((request, n) => {
      const scene = scenes[n];
      if (!scene) return text('done');
      return use(
        ...scene.tools.map((name) => ({
          name: name in inputOf ? name : offered(request, name),
          input: inputOf[name] ?? { amount: 1000, to: 'somebody' },
        })),
      );
    });
    const broken = new Set<string>();
    engine.toolsAnswer(async ({ path, headers, socket }) => {
      const key = String(headers['idempotency-key']);
      if (path.includes('doubtful') && !broken.has(key)) {
        broken.add(key);
        socket.destroy();
      }
      return { status: 200, body: { ok: key } };
    });
    const budget = { max_steps: 12, soft_limit: 0.2, on_soft_limit: 'ask' as const };
    const { run } = await engine.start(agent, 'go', { config: { budget } });
    await goOn(run);
    for (const [index, { act }] of scenes.entries()) {
      await approveBudget(run);
      if (isCancelled && index === scenes.length - 1) await cancelRun(engine.context, ref(run), 'enough');
      else await act(run);
      await follow(run);
      await goOn(run);
    }
    await approveBudget(run);
    await follow(run);
    return run;
  };

  const assertHistoryKept = async (run: string, status: string) => {
    const { status: is, error } = await storedRun(engine, run);
    assert.deepEqual([is, error], [status, null]);
    const live = seen.get(run) ?? [];
    assert.ok(live.length > 3);
    for (const after of [0, ...live.map(({ id = 0 }) => id)]) {
      assert.deepEqual(
        await read(run, after),
        live.filter(({ id = 0 }) => id > after),
      );
    }
  };

  for (const [name, scene] of Object.entries(SCENES)) {
    it(`is the same later as it was then: ${name}`, async () => {
      await assertHistoryKept(await play([scene], false), 'completed');
    });
  }

  it('shows the arguments that the digest beside them is of', async () => {
    const run = await play([SCENES['an edited call'] as Scene], false);
    const shown = await read(run, 0);
    const inputs = shown.flatMap(({ event, data }) =>
      event === 'tool_call' || event === 'approval' ? [[event, data['status'], data['input']]] : [],
    );
    const original = { amount: 1000, to: 'somebody' };
    assert.deepEqual(inputs, [
      ['tool_call', undefined, original],
      ['approval', 'pending', original],
      ['approval', 'approved', { amount: 1, to: 'another' }],
    ]);
  });

  it('is the same later as it was then, whatever a run waits for and however that ends', async function () {
    const scenes = fc.array(fc.constantFrom(...Object.values(SCENES)), { minLength: 2, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(scenes, fc.boolean(), async (chosen, isCancelled) => {
        await assertHistoryKept(await play(chosen, isCancelled), isCancelled ? 'cancelled' : 'completed');
      }),
      { numRuns: 12, endOnFailure: true },
    );
  });
});
