import assert from 'node:assert/strict';
import { LIMITS } from '../../../core/limits.ts';
import { isTerminal, type RunEvent } from '../../../core/events.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { driveRun } from '../../../modules/runs/drive.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import type { AnthropicRequest } from '../../support/fake-anthropic.ts';
import { openProcess } from '../../support/killed-process.ts';
import { childrenOfRun, statusOfRun, storedRun } from '../../support/queries/runs.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { lookNow, readWorkflow, startWorkflow, subtask } from '../../support/workflows.ts';

describe('A run over which its processes die, one after the other,', () => {
  let engine: Engine;
  beforeEach(async () => {
    engine = await openEngine();
  });
  afterEach(() => engine.close());

  /** So many processes drive the run, and die: `dying` says of what. */
  async function lose(run: string, times: number, dying: (process: ReturnType<typeof openProcess>) => Context) {
    for (let n = 0; n < times; n += 1) {
      await assert.rejects(engine.drive(run, dying(openProcess(engine.context))), /the process was killed/);
      await engine.everyoneDies();
    }
  }

  const failure = (log: readonly RunEvent[]) =>
    log.flatMap((event) => (event.type === 'turn.failed' ? [event.payload.error.code] : []));

  /** Kills or stops the process that asks a model next what Drover wants to know. */
  let asking: (() => void) | undefined;
  /** How often models were asked that, by the tool that they are to answer with. */
  let owned: Record<string, number> = {};
  const dyingOfAsking = ({ context, kill }: ReturnType<typeof openProcess>) => {
    asking = kill;
    return context;
  };
  const answering = () => {
    owned = {};
    asking = undefined;
    engine.say(({ tools = [] }) => {
      const [{ name } = { name: '' }] = tools;
      if (!name.startsWith('submit_')) return text('Vienna');
      owned[name] = (owned[name] ?? 0) + 1;
      asking?.();
      return use({ name, input: { meets_criteria: true, gaps: [] } });
    });
  };
  const reflections = (log: readonly RunEvent[]) =>
    log.flatMap((event) => (event.type === 'reflection.completed' ? [event.payload.meets_criteria] : []));

  it('takes its answer unjudged once ten have died of the judgement', async () => {
    const agent = await engine.agent({ execution_config: { reflect: true } });
    answering();
    const { run } = await engine.start(agent, 'Name the capital.');
    await lose(run, LIMITS.lostLeases, dyingOfAsking);
    asking = undefined;
    await engine.finish(run);
    assert.deepEqual(owned, { submit_verdict: LIMITS.lostLeases });
    assert.equal(await statusOfRun(engine, run), 'completed');
    assert.deepEqual(reflections(await engine.log(run)), [null]);
  });

  it('has its answer judged after nine such deaths, and after any number of processes that are told to stop', async () => {
    const agent = await engine.agent({ execution_config: { reflect: true } });
    answering();
    const { run } = await engine.start(agent, 'Name the capital.');
    await lose(run, LIMITS.lostLeases - 1, dyingOfAsking);
    for (let n = 0; n < LIMITS.lostLeases; n += 1) {
      const stop = new AbortController();
      asking = () => stop.abort(new Error('the process stops'));
      const job = { tenantId: engine.tenantId, runId: run, seq: 0 };
      const { result } = await driveRun(engine.context, job, { stop: stop.signal, draining: () => false });
      assert.equal(result, 'yielded');
    }
    asking = undefined;
    await engine.finish(run);
    assert.deepEqual(reflections(await engine.log(run)), [true]);
  });

  const dyingOfLoading = ({ context, kill }: ReturnType<typeof openProcess>): Context => {
    const load = () => {
      kill();
      return Promise.reject(new Error('the process was killed'));
    };
    return { ...context, definitions: { ...context.definitions, load } };
  };

  it('fails unread once none of them has survived to read it', async () => {
    engine.say(() => text('Vienna'));
    const { run } = await engine.start(await engine.agent(), 'Name the capital.');
    await lose(run, LIMITS.lostLeases + LIMITS.suspectLeases, dyingOfLoading);
    const { context } = openProcess(engine.context);
    await engine.drive(run, { ...context, definitions: dyingOfLoading({ context, kill: assert.fail }).definitions });
    assert.deepEqual(await storedRun(engine, run).then(({ status, error }) => [status, error?.code]), [
      'failed',
      'leases_lost',
    ]);
  });

  it('is answered by the first that survives reading it, before that', async () => {
    engine.say(() => text('Vienna'));
    const { run } = await engine.start(await engine.agent(), 'Name the capital.');
    await lose(run, LIMITS.lostLeases - 1, dyingOfLoading);
    await engine.finish(run);
    assert.equal(await statusOfRun(engine, run), 'completed');
  });

  /** A run whose answer is committed, and of whose calls none was made, since the process was to stop. */
  async function leaveCalls(agent: string, requested: (request: AnthropicRequest) => Parameters<typeof use>) {
    engine.say((request, n) => (n === 0 ? use(...requested(request)) : text('done')));
    const { run } = await engine.start(agent, 'What is 6 * 7?');
    const stop = new AbortController();
    const { stepSeconds } = engine.context.metrics;
    // Observed once the answer is there, and before it is committed.
    const observe = () => stop.abort(new Error('the process stops'));
    const metrics = { ...engine.context.metrics, stepSeconds: Object.assign(Object.create(stepSeconds), { observe }) };
    const job = { tenantId: engine.tenantId, runId: run, seq: 0 };
    await driveRun({ ...engine.context, metrics }, job, { stop: stop.signal, draining: () => false });
    return run;
  }

  /** Dies of any call that it makes. */
  const dyingOfCalls =
    (made: () => void) =>
    ({ context, kill }: ReturnType<typeof openProcess>): Context => ({
      ...context,
      tools: {
        ...context.tools,
        execute: () => {
          made();
          kill();
          return Promise.reject(new Error('the process was killed'));
        },
      },
    });

  it('fails with the calls that its driver makes once ten have died of them, and not before', async () => {
    const sum = () => [{ name: 'calculator', input: { expression: '6 * 7' } }];
    const agent = await engine.agent({ tools: ['calculator'] });
    let made = 0;
    const dying = dyingOfCalls(() => (made += 1));
    const lucky = await leaveCalls(agent, sum);
    await lose(lucky, LIMITS.lostLeases - 1, dying);
    assert.equal(made, LIMITS.lostLeases - 1);
    await engine.finish(lucky);
    assert.equal(await statusOfRun(engine, lucky), 'completed');
    const stuck = await leaveCalls(agent, sum);
    await lose(stuck, LIMITS.lostLeases, dying);
    await engine.finish(stuck);
    const log = await engine.log(stuck);
    assert.deepEqual(failure(log), ['leases_lost']);
    const calls = log.flatMap((event) => (event.type === 'tool.failed' ? [event.payload.error.code] : []));
    assert.deepEqual(calls, ['leases_lost']);
    assert.equal(await statusOfRun(engine, stuck), 'failed');
  });

  it('fails without a call that its driver was about to make, which surely had no effect', async () => {
    const slow = { name: 'pay', execution: { inline: true }, risk_level: 'WRITE_LOW_RISK' as const };
    const run = await leaveCalls(await engine.agent({}, [slow]), (request) => [{ name: offered(request, 'pay') }]);
    const dyingOfGate = ({ context, kill }: ReturnType<typeof openProcess>) => {
      const current: Context['governance']['current'] = () => {
        kill();
        return Promise.reject(new Error('the process was killed'));
      };
      return { ...context, governance: { ...context.governance, current } };
    };
    await lose(run, LIMITS.lostLeases, dyingOfGate);
    await engine.finish(run);
    const log = await engine.log(run);
    assert.deepEqual(failure(log), ['leases_lost']);
    const calls = log.filter(({ type }) => /^tool\.(failed|unknown|denied)$/.test(type));
    assert.deepEqual(
      calls.map(({ type }) => type),
      ['tool.failed'],
    );
    assert.equal(engine.tools.seen.length, 0);
  });

  it('fails at the model call whose conversation ten have died of summing up', async () => {
    const short_term = { max_tokens: 1000, strategy: 'summarize' as const };
    const llm_config = { default_model: 'anthropic/claude-haiku-4-5' };
    const agent = await engine.agent({ llm_config, memory_config: { short_term } });
    answering();
    const long = 'lorem ipsum '.repeat(100);
    const { run } = await engine.start(agent, long, { config: { keep_open: true } });
    await engine.finish(run);
    for (const message of [long, long]) {
      await engine.post(agent, run, message);
      await engine.finish(run);
    }
    assert.deepEqual(owned, {});
    await engine.post(agent, run, long);
    await lose(run, LIMITS.lostLeases, dyingOfAsking);
    asking = undefined;
    await engine.finish(run);
    assert.deepEqual(failure(await engine.log(run)), ['leases_lost']);
    assert.deepEqual(owned, { submit_summary: LIMITS.lostLeases });
  });

  /** Dies of what the planner says, ten times. */
  async function losePlanners(runId: string) {
    for (let n = 0; n < LIMITS.lostLeases; n += 1) {
      const context = dyingOfAsking(openProcess(engine.context));
      await assert.rejects(lookNow(context, { tenantId: engine.tenantId, runId }), /the process was killed/);
      await engine.everyoneDies();
    }
    asking = undefined;
    await lookNow(engine.context, { tenantId: engine.tenantId, runId });
  }

  it('does not take another one with it, whose question they work on beside it each time', async () => {
    const agent = await engine.agent();
    const { run: poisonous } = await engine.start(agent, 'poison');
    const { run: innocent } = await engine.start(agent, 'a long question');
    const runs = [poisonous, innocent];
    let [asked, paid] = [0, 0];
    let process = openProcess(engine.context);
    let isKilled = false;
    const ended = new Set<string>();
    engine.say(async ({ messages }) => {
      if (JSON.stringify(messages).includes('poison')) {
        await waitUntil('the other is asked or left', () => asked > 0 || ended.has(innocent));
        isKilled = true;
        process.kill();
      } else {
        asked += 1;
        paid += 1;
        await waitUntil('the process is killed, or nothing kills it', () => isKilled || ended.has(poisonous));
      }
      return text('done');
    });
    const states = () => Promise.all(runs.map(async (run) => (await storedRun(engine, run)).status));
    for (let n = 0; n < 2 * LIMITS.lostLeases && (await states()).some((status) => !isTerminal(status)); n += 1) {
      process = openProcess(engine.context);
      [asked, isKilled] = [0, false];
      ended.clear();
      const drives = runs.map((run) => engine.drive(run, process.context).finally(() => ended.add(run)));
      await Promise.allSettled(drives);
      await engine.everyoneDies();
    }
    assert.deepEqual(await states(), ['failed', 'completed']);
    assert.deepEqual(failure(await engine.log(poisonous)), ['leases_lost']);
    assert.equal(paid, LIMITS.suspectLeases + 1);
  });

  it('leaves the place of its process to another one as soon as its log has moved on', async () => {
    const agent = await engine.agent({ tools: ['calculator'] });
    const { run: first } = await engine.start(agent, 'first');
    const { run: second } = await engine.start(agent, 'second');
    for (const run of [first, second]) await lose(run, LIMITS.suspectLeases, dyingOfLoading);
    const { context } = openProcess(engine.context);
    const ends: unknown[] = [];
    engine.say(async ({ messages }) => {
      if (!JSON.stringify(messages).includes('first')) return text('Vienna');
      if (messages.length === 1) return use({ name: 'calculator', input: { expression: '6 * 7' } });
      ends.push(await engine.drive(second, context));
      return text('42');
    });
    ends.push(await engine.drive(first, context));
    assert.deepEqual(ends, ['dormant', 'dormant']);
    assert.deepEqual(await Promise.all([first, second].map((run) => statusOfRun(engine, run))), [
      'completed',
      'completed',
    ]);
    assert.ok(context.suspectPlace.take(), 'its place is free again');
  });

  it('is left alone as a workflow by a process that drives another one which has lost as many', async () => {
    answering();
    const id = await startWorkflow(engine, [], { agentId: await engine.agent() });
    const look = (context: Context) => lookNow(context, { tenantId: engine.tenantId, runId: id });
    for (let n = 0; n < LIMITS.suspectLeases; n += 1) {
      await assert.rejects(look(dyingOfAsking(openProcess(engine.context))), /the process was killed/);
      await engine.everyoneDies();
    }
    asking = undefined;
    const { context } = openProcess(engine.context);
    const leave = context.suspectPlace.take();
    await look(context);
    assert.deepEqual(owned, { submit_plan: LIMITS.suspectLeases });
    leave?.();
    await look(context);
    assert.ok((owned['submit_plan'] ?? 0) > LIMITS.suspectLeases);
    assert.ok(context.suspectPlace.take(), 'its place is free again');
  });

  it('leaves that place as a workflow once a subtask has begun, while the plan is still being written', async () => {
    answering();
    const id = await startWorkflow(engine, [], { agentId: await engine.agent() });
    const look = (context: Context) => lookNow(context, { tenantId: engine.tenantId, runId: id });
    for (let n = 0; n < LIMITS.suspectLeases; n += 1) {
      await assert.rejects(look(dyingOfAsking(openProcess(engine.context))), /the process was killed/);
      await engine.everyoneDies();
    }
    const { context } = openProcess(engine.context);
    const [a, b] = [subtask('a'), subtask('b')].map((one) => JSON.stringify(one));
    const isFree = () => waitUntil('its place is free', () => context.suspectPlace.take() !== undefined);
    const pieces = [`{"subtasks": [${a}, `, isFree, `${b}], "success_criteria": ""}`];
    engine.say(() => ({ ...use({ name: 'submit_plan', input: {} }), pieces }));
    await look(context);
    const { tasks } = await readWorkflow(engine, id);
    assert.deepEqual(tasks.map(({ name }) => name).toSorted(), ['a', 'b']);
    assert.equal(context.suspectPlace.take(), undefined, 'it does not leave the place of another one');
  });

  it('fails as a workflow once ten have died of its plan', async () => {
    answering();
    const id = await startWorkflow(engine, [], { agentId: await engine.agent() });
    await losePlanners(id);
    const { workflow } = await readWorkflow(engine, id);
    assert.deepEqual([workflow.status, workflow.error?.code], ['failed', 'leases_lost']);
    assert.deepEqual(owned, { submit_plan: LIMITS.lostLeases });
  });

  it('answers as a workflow with the results as they are once ten have died of an answer made of them', async () => {
    answering();
    const id = await startWorkflow(engine, [], {
      agentId: await engine.agent(),
      definition: { subtasks: [subtask('a'), subtask('b')], success_criteria: 'It names the river.' },
    });
    await lookNow(engine.context, { tenantId: engine.tenantId, runId: id });
    for (const child of await childrenOfRun(engine, id)) await engine.finish(child.id);
    await losePlanners(id);
    const { workflow } = await readWorkflow(engine, id);
    assert.deepEqual([workflow.status, workflow.meets_criteria], ['completed', null]);
    assert.match(JSON.stringify(workflow.output), /Vienna.*Vienna/);
    assert.deepEqual(owned, { submit_synthesis: LIMITS.lostLeases });
  });
});
