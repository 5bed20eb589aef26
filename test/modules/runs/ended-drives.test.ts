import assert from 'node:assert/strict';
import type { ToolAttempt, ToolDefinition } from '../../../core/tool.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { driveRun, type DriveEnd } from '../../../modules/runs/drive.ts';
import { createDriven } from '../../support/create-driven.ts';
import { cutOff } from '../../support/cut-off.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { statusOfRun } from '../../support/queries/runs.ts';
import { callOfRun, callsOfRun } from '../../support/queries/tool-calls.ts';
import { waitUntil } from '../../support/wait-until.ts';

const MADE = { status: 'succeeded', attempt: 1 };

describe('A call that its driver makes, where the drive ends by an error', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  /** A run that is to ask for one call of each of these tools. */
  async function calling(names: readonly string[]): Promise<string> {
    const agent = await engine.agent(
      {},
      names.map((name) => ({ name, execution: { inline: true } })),
    );
    engine.say((request) =>
      JSON.stringify(request.messages).includes('tool_result')
        ? text('done')
        : use(...names.map((name) => ({ name: offered(request, name) }))),
    );
    engine.toolsAnswer(() => undefined);
    return (await engine.start(agent, 'do it')).run;
  }

  function drive(run: string, within: Context, stop = new AbortController()): Promise<DriveEnd> {
    const options = { stop: stop.signal, draining: () => stop.signal.aborted };
    return driveRun(within, { tenantId: engine.tenantId, runId: run, seq: 0 }, options).then(({ result }) => result);
  }

  it('is not given back as unsent where its process stops while the tool works: it is not made twice', async () => {
    const run = await calling(['charge']);
    const working = door();
    engine.toolsAnswer(() => working.pass().then(() => ({ status: 200, body: {} })));
    const stop = new AbortController();
    const driving = drive(run, engine.context, stop);
    await working.reached;
    stop.abort(new Error('the process stops'));
    assert.equal(await driving, 'yielded');
    assert.deepEqual(await callOfRun(engine, run), { status: 'running', attempt: 1 });
    working.open();
    await engine.finish(run);
    assert.deepEqual(await callOfRun(engine, run), { status: 'unknown', attempt: 1 });
    assert.equal(await statusOfRun(engine, run), 'awaiting_human');
    assert.equal(engine.tools.seen.length, 1);
  });

  it('is given back where its process stops once it is handed to its transport, and before that sends it', async () => {
    const run = await calling(['charge']);
    const stop = new AbortController();
    const { context } = engine;
    const execute = (tool: ToolDefinition, attempt: ToolAttempt) => {
      stop.abort(new Error('the process stops'));
      return context.tools.execute(tool, attempt);
    };
    assert.equal(await drive(run, { ...context, tools: { ...context.tools, execute } }, stop), 'yielded');
    assert.deepEqual(await callOfRun(engine, run), { status: 'pending', attempt: 1 });
    await engine.finish(run);
    assert.deepEqual(await callOfRun(engine, run), { status: 'succeeded', attempt: 2 });
    assert.equal(engine.tools.seen.length, 1);
  });

  /** A driver that holds its run, and whose commits of what comes of calls the database undoes for longer than a lease. */
  function undoingResults(): { context: Context; undone: () => number; undoNoMore: () => void } {
    const { context } = engine;
    let isUndoing = true;
    let undone = 0;
    const commit: Context['commit'] = (change) => {
      if (!isUndoing || !change.events.some(({ type }) => type === 'tool.succeeded')) return context.commit(change);
      undone += 1;
      return Promise.reject(Object.assign(new Error('undone'), { code: '40001' }));
    };
    const config = { ...context.config, leaseMs: 1500 };
    return {
      context: { ...context, commit, config },
      undone: () => undone,
      undoNoMore: () => void (isUndoing = false),
    };
  }

  it('keeps its result where the driver holds the run, and the database undoes each commit of it', async () => {
    const run = await calling(['charge']);
    const { context, undone } = undoingResults();
    await assert.rejects(drive(run, context), { code: '40001' });
    assert.ok(undone() > 1);
    assert.deepEqual(await callOfRun(engine, run), MADE);
    await engine.finish(run);
    assert.equal(await statusOfRun(engine, run), 'completed');
    assert.equal(engine.tools.seen.length, 1);
  });

  it('keeps its result where another one of the drive has been settled by itself, and the driver holds the run', async () => {
    const run = await calling(['charge', 'send']);
    const sending = door();
    engine.toolsAnswer(({ path }) =>
      path === '/send' ? sending.pass().then(() => ({ status: 200, body: {} })) : undefined,
    );
    const { context, undoNoMore } = undoingResults();
    const driving = drive(run, context).catch((error: unknown) => error);
    await sending.reached;
    await waitUntil('the other one is settled', async () => (await callsOfRun(engine, run))[0]?.status === 'succeeded');
    undoNoMore();
    sending.open();
    await driving;
    assert.deepEqual(await callsOfRun(engine, run), [MADE, MADE]);
    await engine.finish(run);
    assert.equal(await statusOfRun(engine, run), 'completed');
    assert.equal(engine.tools.seen.length, 2);
  });

  it('keeps nobody waiting for the run that its claim was to create, where the database goes away: there is an error at once', async () => {
    const cut = cutOff(engine, { leaseMs: 1500 });
    const stop = new AbortController();
    const { created, drive: driven } = await createDriven(engine, {
      context: cut.context,
      commit: (change) => {
        if (change.create) cut.off();
        return cut.context.commit(change);
      },
      stop,
    });
    // The database is away all the while.
    await assert.rejects(created, { code: 'ECONNRESET' });
    cut.on();
    stop.abort(new Error('the process stops'));
    await driven.end.catch(() => undefined);
    assert.equal(engine.tools.seen.length, 0);
  });
});
