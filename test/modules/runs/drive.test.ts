import assert from 'node:assert/strict';
import type { RunEvent } from '../../../core/events.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { createGroupCommit } from '../../../modules/run-log/group-commit.ts';
import type { RunChange } from '../../../db/commit-run.ts';
import { driveRun } from '../../../modules/runs/drive.ts';
import { appendToRun } from '../../../modules/run-log/append-to-run.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { newId } from '../../../lib/new-id.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import type { AnthropicRequest } from '../../support/fake-anthropic.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { costsOfModelCalls, statusOfRun, storedRun, sumsOfModelCalls, turnsOfRun } from '../../support/queries/runs.ts';
import { callsOfRun, endOfCall } from '../../support/queries/tool-calls.ts';
import { slowModelCalls } from '../../support/queries/logs.ts';

const calculate = (expression: string) => use({ name: 'calculator', input: { expression } });
const types = (log: RunEvent[]) => log.map(({ type }) => type);
const bodies = (engine: Engine) => engine.model.requests.map(({ body }) => body as AnthropicRequest);

describe('Driving a run', () => {
  let engine: Engine;

  before(async () => {
    engine = await openEngine();
  });

  after(() => engine.close());

  it('costs one statement for each step with pure tools, and none beside the claim and the first announcement', async () => {
    const agent = await engine.agent({ tools: ['calculator'] });
    engine.say([text('to know the agent')]);
    await engine.finish((await engine.start(agent, 'hello')).run);
    const statements: string[] = [];
    const counting = countStatements(engine.context, statements);
    engine.say([calculate('1 + 1'), calculate('2 * 3'), calculate('4 ^ 2'), text('2, 6 and 16')]);
    const { run } = await engine.start(agent, 'some sums');
    assert.equal(await engine.drive(run, counting), 'dormant');
    assert.deepEqual(statements, [
      'claim_run',
      'commit_run', // the turn begins and the first model call is announced
      'commit_run', // the first answer, its call, and the next announcement
      'commit_run', // the first result, the second answer, …
      'commit_run',
      'commit_run', // the third result, the last answer, the end of the turn and its checkpoint
    ]);
    assert.match(JSON.stringify(await engine.conversation(run)), /"content":"\{\\"result\\":16\}"/);
  });

  it('hands the calls of a step to other workers in the commit of the answer that asked for them', async () => {
    const agent = await engine.agent({}, [{ name: 'note' }]);
    engine.say((request, n) => (n % 2 === 0 ? use({ name: offered(request, 'note') }) : text('noted')));
    await engine.finish((await engine.start(agent, 'to know the agent')).run);
    const statements: string[] = [];
    const { run } = await engine.start(agent, 'note this');
    assert.equal(await engine.drive(run, countStatements(engine.context, statements)), 'yielded');
    assert.deepEqual(statements, ['claim_run', 'commit_run', 'commit_run']);
    await engine.makeCalls(run);
    await engine.finish(run);
    assert.equal(await statusOfRun(engine, run), 'completed');
  });

  it('lets one of two drivers have the run, and sends one request', async () => {
    const agent = await engine.agent();
    const gate = door();
    engine.say(async () => {
      await gate.pass();
      return text('once');
    });
    const { run } = await engine.start(agent, 'hello');
    const ends: string[] = [];
    const driving = [1, 2, 3].map(async () => ends.push(await engine.drive(run)));
    await waitUntil('two are refused', () => ends.length === 2);
    gate.open();
    await Promise.all(driving);
    assert.deepEqual(ends, ['held', 'held', 'dormant']);
    assert.equal(engine.model.requests.length, 1);
    assert.equal(await engine.drive(run), 'finished');
    const job = { tenantId: engine.tenantId, runId: run, seq: 10_000 };
    const options = { stop: new AbortController().signal, draining: () => false };
    assert.equal((await driveRun(engine.context, job, options)).result, 'beyond');
    assert.equal((await driveRun(engine.context, { ...job, runId: newId() }, options)).result, 'missing');
  });

  it('writes nothing for a driver that was stalled while another took the run', async () => {
    const agent = await engine.agent({ tools: ['calculator'] });
    const gate = door();
    engine.say(async (_request, n) => {
      if (n > 0) return text('from the second driver');
      await gate.pass();
      return text('from the first driver');
    });
    const { run } = await engine.start(agent, 'hello');
    const stalled = engine.drive(run);
    await gate.reached;
    await engine.everyoneDies();
    assert.equal(await engine.drive(run), 'dormant');
    const log = await engine.log(run);
    gate.open();
    assert.equal(await stalled, 'lost');
    assert.deepEqual(await engine.log(run), log);
    assert.match(JSON.stringify(await engine.conversation(run)), /from the second driver/);
    assert.doesNotMatch(JSON.stringify(await engine.conversation(run)), /from the first driver/);
  });

  it('folds what others append during a model call and keeps the answer that was paid for', async () => {
    const agent = await engine.agent({ tools: ['calculator'] });
    const gate = door();
    engine.say(async (_request, n) => {
      if (n === 0) await gate.pass();
      return n === 0 ? calculate('20 + 1') : text('21');
    });
    const { run } = await engine.start(agent, 'hello');
    const driving = engine.drive(run);
    await gate.reached;
    const payload = { checkpoint_id: newId(), at_seq: 1, problem: 'said by another' };
    await appendToRun(engine.context, { tenantId: engine.tenantId, runId: run }, () => ({
      events: [{ type: 'checkpoint.corrupt', actor: 'system', payload }],
    }));
    gate.open();
    assert.equal(await driving, 'dormant');
    const log = await engine.log(run);
    assert.deepEqual(
      log.map(({ seq }) => seq),
      log.map((_, index) => index + 1),
    );
    assert.ok(types(log).indexOf('checkpoint.corrupt') < types(log).indexOf('model.responded'));
    assert.equal(engine.model.requests.length, 2);
    assert.equal((await engine.conversation(run)).length, 4);
  });

  it('stops without a word when the run is cancelled, and closes what its driver was at', async () => {
    const agent = await engine.agent({}, [{ name: 'charge', execution: { inline: true } }]);
    const gate = door();
    engine.toolsAnswer(async () => {
      await gate.pass();
      return { status: 200, body: 'done' };
    });
    engine.say((request) => use({ name: offered(request, 'charge') }));
    const { run } = await engine.start(agent, 'hello');
    const driving = engine.drive(run);
    await gate.reached;
    assert.equal(await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run }), true);
    assert.equal(await driving, 'lost');
    gate.open();
    assert.deepEqual(types(await engine.log(run)).slice(-4), [
      'run.cancel_requested',
      'run.status_changed',
      'run.cancelled',
      'turn.interrupted',
    ]);
    const call = await endOfCall(engine, run);
    assert.deepEqual([call.status, call.code], ['unknown', 'cancelled']);
    assert.equal(await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run }), false);
  });

  it('hands the run over while its process stops, and loses no message by it', async () => {
    const agent = await engine.agent({ tools: ['calculator'] });
    engine.say([calculate('1 + 1'), text('2')]);
    const { run } = await engine.start(agent, 'one and one?');
    const drained = () =>
      driveRun(
        engine.context,
        { tenantId: engine.tenantId, runId: run, seq: 0 },
        { stop: new AbortController().signal, draining: () => true },
      );
    assert.deepEqual(await drained(), { result: 'yielded', outcome: 'yielded' });
    assert.equal(engine.model.requests.length, 0);
    await engine.finish(run);
    const asked = JSON.stringify(bodies(engine)[0]?.messages);
    assert.match(asked, /one and one\?/);
    assert.equal(await statusOfRun(engine, run), 'completed');
  });

  it('answers what has become of the run', async () => {
    engine.say([text('done')]);
    const { run } = await engine.start(await engine.agent(), 'hello');
    const job = { tenantId: engine.tenantId, runId: run, seq: 0 };
    const options = { stop: new AbortController().signal, draining: () => false };
    const drives = [await driveRun(engine.context, job, options), await driveRun(engine.context, job, options)];
    assert.deepEqual(drives, [
      { result: 'dormant', outcome: 'completed' },
      { result: 'finished', outcome: 'finished' },
    ]);
  });

  it('asks once for a summary without tools at the step limit', async () => {
    const agent = await engine.agent({ tools: ['calculator'], execution_config: { max_turns: 2 } });
    engine.say((request) => {
      const choice = request['tool_choice'] as { type: string } | undefined;
      return choice?.type === 'none' ? text('so far I have got to 2') : calculate('1 + 1');
    });
    const { run } = await engine.start(agent, 'count for ever');
    await engine.finish(run);
    assert.equal(engine.model.requests.length, 3);
    const log = await engine.log(run);
    assert.equal(types(log).filter((type) => type === 'run.max_steps_reached').length, 1);
    assert.ok(types(log).indexOf('run.max_steps_reached') < types(log).lastIndexOf('model.called'));
    const [turn] = await turnsOfRun(engine, run);
    assert.deepEqual([turn?.status, turn?.stop_reason, turn?.steps], ['complete', 'max_steps', 3]);
    assert.match(JSON.stringify((await engine.conversation(run)).at(-1)), /so far I have got to 2/);
  });

  it('ignores tool uses of a model that was told to use none', async () => {
    const agent = await engine.agent({ tools: ['calculator'], execution_config: { max_turns: 1 } });
    engine.say(() => calculate('1 + 1'));
    const { run } = await engine.start(agent, 'count for ever');
    await engine.finish(run);
    assert.equal(engine.model.requests.length, 2);
    const [turn] = await turnsOfRun(engine, run);
    assert.deepEqual([turn?.status, turn?.stop_reason], ['complete', 'max_steps']);
    assert.equal((await callsOfRun(engine, run)).length, 1);
  });

  it('fails a turn that has used up its time in the middle of a model call', async () => {
    const agent = await engine.agent({ execution_config: { timeout_seconds: 0.1 } });
    engine.say(() => ({ hang: true }));
    const { run } = await engine.start(agent, 'hello');
    assert.equal(await engine.drive(run), 'dormant');
    const { error, status } = await storedRun(engine, run);
    assert.deepEqual([status, error?.code], ['failed', 'turn_timeout']);
    assert.match(error?.message ?? '', /0\.1 s.*execution_config\.timeout_seconds/);
  });

  it('gives a turn half an hour of driving time where its agent does not say', async () => {
    const agent = await engine.agent({}, [{ name: 'note' }]);
    const afterMinutes = async (minutes: number) => {
      engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'note') }) : text('noted')));
      const { run } = await engine.start(agent, 'note it');
      assert.equal(await engine.drive(run), 'yielded');
      await slowModelCalls(engine, run, minutes * 60_000);
      engine.context.runCache.take(run);
      await engine.makeCalls(run);
      await engine.finish(run);
      const { status, error } = await storedRun(engine, run);
      return { status, error };
    };
    assert.deepEqual(await afterMinutes(29), { status: 'completed', error: null });
    const { status, error } = await afterMinutes(31);
    assert.equal(status, 'failed');
    assert.match(error?.message ?? '', /1800 s/);
  });

  it('leaves a run that is kept open waiting after a turn that failed, and goes on with it', async () => {
    const agent = await engine.agent();
    engine.say([{ error: { status: 400, type: 'invalid_request_error', message: 'too odd' } }, text('better')]);
    const { run } = await engine.start(agent, 'odd', { config: { keep_open: true } });
    assert.equal(await engine.drive(run), 'dormant');
    assert.equal(await statusOfRun(engine, run), 'awaiting_human');
    await engine.post(agent, run, 'plain');
    assert.equal(await engine.drive(run), 'dormant');
    const turns = await turnsOfRun(engine, run);
    assert.deepEqual(
      turns.map(({ number, status, error }) => [number, status, error?.code]),
      [
        [1, 'failed', 'model_invalid_request'],
        [2, 'complete', undefined],
      ],
    );
  });

  it('takes the next turn of a run that is kept open after one for which no model could be asked', async () => {
    const agent = await engine.agent({ llm_config: { default_model: 'gpt-5' } });
    const { run } = await engine.start(agent, 'one', { config: { keep_open: true } });
    assert.equal(await engine.drive(run), 'dormant');
    await engine.post(agent, run, 'two');
    assert.equal(await engine.drive(run), 'dormant');
    const turns = await turnsOfRun(engine, run);
    assert.deepEqual(
      turns.map(({ status }) => status),
      ['failed', 'failed'],
    );
  });

  it('asks an overloaded model again, and says so in the log', async () => {
    const agent = await engine.agent({ llm_config: { default_model: 'claude-sonnet-5' } });
    engine.say([{ error: { status: 529, type: 'overloaded_error' } }, text('at last')]);
    const { run } = await engine.start(agent, 'hello');
    await engine.finish(run);
    const retried = (await engine.log(run)).find(({ type }) => type === 'model.retried');
    assert.ok(retried?.type === 'model.retried');
    assert.deepEqual([retried.payload.error.code, retried.payload.attempt], ['overloaded', 1]);
    const { cost_usd: cost } = await storedRun(engine, run);
    assert.equal(Number(cost), (10 * 2 + 5 * 10) / 1e6);
  });

  it('writes the results of pure calls together with the answer that asks for them', async () => {
    const agent = await engine.agent({ tools: ['calculator'] });
    engine.say([calculate('1 + 1'), text('two')]);
    const changes: RunChange[] = [];
    const commit: Context['commit'] = (change) => {
      changes.push(change);
      return engine.context.commit(change);
    };
    const { run } = await engine.start(agent, 'a sum');
    assert.equal(await engine.drive(run, { ...engine.context, commit }), 'dormant');
    const asking = changes.find(({ new_calls }) => new_calls);
    assert.deepEqual(
      asking?.events.map(({ type }) => type),
      ['model.responded', 'tool.requested', 'tool.succeeded', 'model.called'],
    );
    assert.deepEqual(
      asking?.new_calls?.map(({ status, output, attempt }) => ({ status, output, attempt })),
      [{ status: 'succeeded', output: { result: 2 }, attempt: 1 }],
    );
    assert.ok(changes.every(({ calls }) => calls === undefined));
  });

  it('shows each model call of the log as a row to its tenant, and to no other', async () => {
    const agent = await engine.agent({ tools: ['calculator'] });
    engine.say([calculate('1 + 1'), text('two')]);
    const { run } = await engine.start(agent, 'hello');
    await engine.finish(run);
    const as = (tenantId: string) => sumsOfModelCalls({ context: engine.context, tenantId }, run);
    const { steps, tokens_in, tokens_out } = await storedRun(engine, run);
    assert.equal(steps, 2);
    assert.deepEqual(await as(engine.tenantId), { steps, tokens_in, tokens_out, timed: true });
    assert.deepEqual(await as(newId()), { steps: 0, tokens_in: null, tokens_out: null, timed: null });
  });

  it('falls back to the next model, and knows no cost where it knows no price', async () => {
    const llm_config = { default_model: 'claude-sonnet-5', fallback_model: 'claude-of-tomorrow' };
    const agent = await engine.agent({ llm_config });
    engine.say((request) =>
      request.model === 'claude-sonnet-5' ? { error: { status: 403, type: 'permission_error' } } : text('I can'),
    );
    const { run } = await engine.start(agent, 'hello');
    await engine.finish(run);
    const fell = (await engine.log(run)).filter(({ type }) => /^model\.(failed|fell_back|responded)$/.test(type));
    assert.deepEqual(types(fell), ['model.failed', 'model.fell_back', 'model.responded']);
    assert.equal((await storedRun(engine, run)).cost_usd, null);
    const costs = [...(await turnsOfRun(engine, run)), ...(await costsOfModelCalls(engine, run))];
    assert.deepEqual(
      costs.map(({ cost_usd }) => cost_usd),
      [null, null],
    );
  });

  it('fails the turn at once where the model has no key here, and skips such a fallback', async () => {
    const failing = await engine.agent({ llm_config: { default_model: 'gpt-5' } });
    const { run } = await engine.start(failing, 'hello');
    assert.equal(await engine.drive(run), 'dormant');
    const { error } = await storedRun(engine, run);
    assert.equal(error?.code, 'model_unavailable');
    assert.match(error.message, /OPENAI_API_KEY/);
    engine.say([text('fine')]);
    const skipping = await engine.agent({ llm_config: { default_model: 'claude-sonnet-5', fallback_model: 'gpt-5' } });
    const second = await engine.start(skipping, 'hello');
    await engine.finish(second.run);
    assert.equal(await statusOfRun(engine, second.run), 'completed');
  });

  it('gives each tool use an id of its own where the model repeats or forgets it', async () => {
    const agent = await engine.agent({ tools: ['calculator'] });
    const same = { name: 'calculator', input: { expression: '1 + 1' }, id: 'toolu_same' };
    engine.say([use(same, same, { ...same, id: '' }), use(same), text('2')]);
    const { run } = await engine.start(agent, 'hello');
    await engine.finish(run);
    const last = bodies(engine).at(-1)?.messages ?? [];
    const blocks = last.flatMap(({ content }) => (typeof content === 'string' ? [] : content));
    const asked = blocks.filter(({ type }) => type === 'tool_use').map(({ id }) => id);
    const answered = blocks.filter(({ type }) => type === 'tool_result').map(({ tool_use_id: id }) => id);
    assert.equal(new Set(asked).size, 4);
    assert.ok(asked.includes('toolu_same') && !asked.includes(''));
    assert.deepEqual(answered, asked);
  });

  it('lets the model read why a call was not made', async () => {
    engine.toolsAnswer(() => undefined);
    const permissions = [{ name: 'vault', required: true }];
    const agent = await engine.agent({ tools: ['calculator'] }, [{ name: 'vault', permissions }]);
    engine.say((request, n) =>
      n === 0
        ? use({ name: 'teleport' }, { name: 'calculator', input: { sum: 1 } }, { name: offered(request, 'vault') })
        : text('I see'),
    );
    const { run } = await engine.start(agent, 'hello');
    assert.equal(await engine.drive(run), 'dormant');
    assert.equal(engine.tools.seen.length, 0);
    const results = bodies(engine)[1]?.messages.at(-1)?.content;
    assert.ok(Array.isArray(results));
    assert.deepEqual(
      results.map(({ is_error: isError }) => isError),
      [true, true, true],
    );
    const [unknown, invalid, denied] = results.map(({ content }) => JSON.stringify(content));
    assert.match(unknown ?? '', /Unknown tool \\?"teleport/);
    assert.match(invalid ?? '', /Invalid arguments: .*expression/);
    assert.match(denied ?? '', /Permission denied: the agent lacks \\?"vault/);
    const calls = await callsOfRun(engine, run);
    assert.deepEqual(calls, [
      { status: 'failed', attempt: 0 },
      { status: 'failed', attempt: 0 },
      { status: 'denied', attempt: 0 },
    ]);
  });

  it('goes on with a thread where its last run ended', async () => {
    const agent = await engine.agent();
    engine.say([text('Hello Ada.'), text('You are Ada.')]);
    const { run, thread } = await engine.start(agent, 'My name is Ada.');
    await engine.finish(run);
    const next = await engine.start(agent, 'Who am I?', { threadId: thread });
    await engine.finish(next.run);
    const seen = JSON.stringify(bodies(engine)[1]?.messages);
    assert.match(seen, /My name is Ada\..*Hello Ada\..*Who am I\?/);
    assert.equal((await engine.conversation(next.run)).length, 4);
    assert.equal((await engine.conversation(run)).length, 2);
  });

  it('sends no more of a long conversation than the agent allows, cut between turns', async () => {
    const agent = await engine.agent({ memory_config: { short_term: { max_tokens: 300 } }, tools: ['calculator'] });
    const long = (n: number) => `question ${n} ${'word '.repeat(80)}`;
    engine.say((_request, n) => (n % 2 === 0 ? calculate('1 + 1') : text(`answer ${n}`)));
    const { run } = await engine.start(agent, long(1), { config: { keep_open: true } });
    await engine.finish(run);
    for (const number of [2, 3, 4]) {
      await engine.post(agent, run, long(number));
      await engine.finish(run);
    }
    const last = bodies(engine).at(-1)?.messages ?? [];
    const first = JSON.stringify(last[0]);
    assert.match(first, /question [34] /);
    assert.doesNotMatch(JSON.stringify(last), /question 1 /);
    assert.match(JSON.stringify(last), /question 4 /);
    const blocks = last.flatMap(({ content }) => (typeof content === 'string' ? [] : content));
    const asked = blocks.filter(({ type }) => type === 'tool_use').map(({ id }) => id);
    assert.deepEqual(
      blocks.filter(({ type }) => type === 'tool_result').map(({ tool_use_id: id }) => id),
      asked,
    );
    assert.equal((await engine.conversation(run)).length, 16);
  });
});

/** The same platform, with the name of every statement of the database noted. */
function countStatements(context: Context, statements: string[]): Context {
  const db = Object.create(context.db) as Context['db'];
  const counted: Partial<Context['db']> = {
    call: (statement) => {
      statements.push(statement.name);
      return context.db.call(statement);
    },
    withTenant: (tenant, work) => {
      statements.push('transaction of a tenant');
      return context.db.withTenant(tenant, work);
    },
    asMaintenance: (work) => {
      statements.push('transaction of maintenance');
      return context.db.asMaintenance(work);
    },
  };
  Object.assign(db, counted);
  return { ...context, db, ...createGroupCommit(db, { lanes: 1 }) };
}
