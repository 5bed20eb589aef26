import assert from 'node:assert/strict';
import { TOOL_CALLS } from '../../../jobs/tool-calls.ts';
import { driveRun } from '../../../modules/runs/drive.ts';
import { postTurn } from '../../../modules/runs/post-turn.ts';
import type { ToolRequest } from '../../../modules/tools-registry/register-tool.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import type { SeenRequest } from '../../support/echo-server.ts';
import { sayToRun } from '../../support/say-to-run.ts';

const [FIRST, SECOND] = ['1', '2'].map((digit) => `00-${digit.repeat(32)}-${digit.repeat(16)}-01`);

const QUEUED: Partial<ToolRequest> = { name: 'slow', annotations: { readOnlyHint: true } };
const INLINE: Partial<ToolRequest> = { name: 'low', execution: { inline: true } };

describe("A turn's trace, where the jobs that carry it are lost,", () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  /** A run whose first turn is over, and whose next one another request begins. */
  async function laterTurn(tools: Partial<ToolRequest>[], script: Parameters<Engine['say']>[0]): Promise<string> {
    const { context, tenantId } = engine;
    const agent = await engine.agent({}, tools);
    engine.say([text('one')]);
    const { run } = await engine.start(agent, 'go', { config: { keep_open: true }, traceparent: FIRST });
    await engine.finish(run);
    engine.say(script);
    const idempotency = { tenantId, route: 'test', body: null };
    const turn = {
      tenantId,
      agentId: agent,
      runId: run,
      input: { message: 'again' },
      traceparent: SECOND,
      idempotency,
    };
    await postTurn(context, turn);
    return run;
  }
  const traceOf = ({ headers }: SeenRequest) => headers['traceparent'];

  it('is told to the tools of its driver, and to the next attempt of a call whose worker has died', async () => {
    const run = await laterTurn([QUEUED, INLINE], (request, n) => {
      if (n > 1) return text('done');
      return use({ name: offered(request, n === 0 ? 'slow' : 'low') });
    });
    const working = door();
    engine.toolsAnswer(async (_request, n) => {
      if (n === 0) await working.pass();
      return { status: 200, body: {} };
    });
    assert.equal(await engine.drive(run), 'yielded');
    const making = engine.makeCalls(run);
    await working.reached;
    await engine.everyoneDies();
    await engine.finish(run);
    working.open();
    await making;
    assert.deepEqual(engine.tools.seen.map(traceOf), [SECOND, SECOND, SECOND]);
  });

  it('is in the job that reconciliation sends for a call', async () => {
    const run = await laterTurn([QUEUED], (request) => use({ name: offered(request, 'slow') }));
    assert.equal(await engine.drive(run), 'yielded');
    await engine.everyoneDies();
    const { listLost } = TOOL_CALLS;
    const filter = { quietMs: 0, tenantId: engine.tenantId, after: NO_ID, limit: 100, embeds: false };
    const lost = (await listLost?.(engine.context.db, filter)) ?? [];
    const payloads = lost.flatMap(({ payload }) => (payload['runId'] === run ? [payload] : []));
    assert.deepEqual(
      payloads.map(({ traceparent }) => traceparent),
      [SECOND],
    );
  });

  it("is the run's again, where a queued message begins the next turn in the same drive", async () => {
    const run = await laterTurn([INLINE], (request, n) =>
      n === 1 ? use({ name: offered(request, 'low') }) : text('so'),
    );
    engine.toolsAnswer(() => undefined);
    await sayToRun(engine, run, { mode: 'queue', input: { message: 'and now?' } });
    const job = { tenantId: engine.tenantId, runId: run, seq: 0, traceparent: SECOND };
    await driveRun(engine.context, job, { stop: new AbortController().signal, draining: () => false });
    assert.deepEqual(engine.tools.seen.map(traceOf), [FIRST]);
  });
});

const NO_ID = '00000000-0000-0000-0000-000000000000';
