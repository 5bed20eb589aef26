import assert from 'node:assert/strict';
import type { ToolResultBlock } from '../../../core/content.ts';
import { MAY_HAVE_HAPPENED, UNKNOWN_OUTCOME } from '../../../core/ledger.ts';
import type { Context } from '../../../modules/governance/context.ts';
import type { CommitChange } from '../../../modules/run-log/group-commit.ts';
import { openEngine, offered, text, use, type Engine } from '../../support/engine.ts';
import type { AnthropicRequest } from '../../support/fake-anthropic.ts';
import { statusOfRun } from '../../support/queries/runs.ts';
import { endOfCall, rewriteCall } from '../../support/queries/tool-calls.ts';

const TOOLS = ['charge', 'record', 'note', 'pay'] as const;

/** Four steps: pure calls, calls of the driver, calls of others, the answer. What it says depends on the request alone. */
function scenario(request: AnthropicRequest) {
  const steps = request.messages.filter(({ role }) => role === 'assistant').length;
  const sum = (id: string, expression: string) => ({ name: 'calculator', input: { expression }, id });
  const call = (name: (typeof TOOLS)[number]) => ({ name: offered(request, name), id: `toolu_${name}` });
  switch (steps) {
    case 0:
      return use(sum('toolu_1', '1 + 1'), sum('toolu_2', '2 + 2'));
    case 1:
      return use(call('charge'), call('record'));
    case 2:
      return use(call('note'), call('pay'), sum('toolu_3', '3 + 3'));
    default:
      return text('all done');
  }
}

describe('A run whose driver dies', () => {
  let engine: Engine;
  let agent: string;
  let commits: number;
  let undisturbed: string[];

  before(async () => {
    engine = await openEngine();
    const idempotent = { annotations: { idempotentHint: true } };
    agent = await engine.agent({ tools: ['calculator'], execution_config: { on_unknown: 'tell_model' } }, [
      { name: 'charge', execution: { inline: true } },
      { name: 'record', execution: { inline: true }, ...idempotent },
      { name: 'note', ...idempotent },
      { name: 'pay' },
    ]);
    // The first time nothing happens to it; that is what every other time is compared with.
    const { run, count } = await undergo(engine, { agent, dieAt: Number.POSITIVE_INFINITY, written: false });
    commits = count;
    undisturbed = await results(engine, run);
    assert.equal(engine.model.requests.length, 4);
    assert.equal(engine.tools.seen.length, 4);
  });

  after(() => engine.close());

  it('is the one that the other tests are about', () => {
    assert.ok(commits >= 8, `${commits} commits`);
    assert.ok(undisturbed.every((result) => !result.includes('unknown')));
  });

  for (const written of [false, true]) {
    const when = written ? 'after a commit was written and before it was told' : 'before a commit was written';
    it(`at any point, ${when}, ends with the same conversation, each call made as often as the ledger allows`, async () => {
      for (let dieAt = 1; dieAt <= commits; dieAt++) {
        const at = `at commit ${dieAt} of ${commits}`;
        const { run } = await undergo(engine, { agent, dieAt, written });
        const status = await statusOfRun(engine, run);
        assert.equal(status, 'completed', at);
        const found = await results(engine, run);
        found.forEach((result, index) => {
          // What is not idempotent may have happened when its driver died: the model is told so.
          const mayBeUnknown = result === `toolu_charge: ${UNKNOWN_OUTCOME}`;
          if (!mayBeUnknown) assert.equal(result, undisturbed[index], at);
        });
        assert.equal(found.length, undisturbed.length, at);
        assertCalls(engine, at);
        const extra = engine.model.requests.length - 4;
        assert.ok(extra === 0 || (extra === 1 && !written), `${extra} answers paid for again, ${at}`);
        const log = await engine.log(run);
        assert.equal(log.filter(({ type }) => type === 'model.responded').length, 4, at);
        assert.deepEqual(
          log.map(({ seq }) => seq),
          log.map((_, index) => index + 1),
          at,
        );
      }
    });
  }

  it('twice in the same call is still followed by no more attempts than the tool allows', async () => {
    const retry_config = { max_retries: 2, backoff_ms: 1 };
    const stubborn = await engine.agent({}, [
      { name: 'record', execution: { inline: true, retry_config }, annotations: { idempotentHint: true } },
    ]);
    engine.toolsAnswer(() => undefined);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'record') }) : text('so be it')));
    const { run } = await engine.start(stubborn, 'hello');
    for (let death = 1; death <= 6; death++) {
      const dying = dyingAtOutcome(engine.context);
      await engine.drive(run, dying).catch(() => undefined);
      await engine.everyoneDies();
    }
    await engine.finish(run);
    assert.equal(engine.tools.seen.length, 3);
    assert.equal(new Set(engine.tools.seen.map(({ headers }) => headers['idempotency-key'])).size, 1);
    assert.deepEqual(await endOfCall(engine, run), {
      status: 'failed',
      attempt: 3,
      code: 'interrupted',
      output: `The worker was lost during the call. ${MAY_HAVE_HAPPENED}`,
    });
  });

  it('has its calls made again as the ledger has them', async () => {
    const idempotent = { execution: { inline: true }, annotations: { idempotentHint: true } };
    const writer = await engine.agent({}, [{ name: 'record', ...idempotent }]);
    engine.toolsAnswer(() => undefined);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'record') }) : text('recorded')));
    const { run } = await engine.start(writer, 'hello');
    await engine.drive(run, dyingAtOutcome(engine.context)).catch(() => undefined);
    await engine.everyoneDies();
    await rewriteCall(engine, run, { key: 'key of the ledger', arguments: { note: 'of the ledger' } });
    await engine.finish(run);
    const [first, again] = engine.tools.seen;
    assert.match(String(first?.headers['idempotency-key']), new RegExp(`^${run}-1-0$`));
    assert.equal(again?.headers['idempotency-key'], 'key of the ledger');
    assert.equal(again.body, '{"note":"of the ledger"}');
    assert.equal(engine.tools.seen.length, 2);
  });
});

function assertCalls({ tools }: Engine, at: string): void {
  for (const name of TOOLS) {
    const seen = tools.seen.filter(({ path }) => path === `/${name}`);
    // A driver that dies between the row and the call leaves `charge` unknown although it was never made.
    const [least = 0, most = 0] = { charge: [0, 1], pay: [1, 1], record: [1, 2], note: [1, 2] }[name];
    assert.ok(seen.length >= least && seen.length <= most, `${name} was called ${seen.length} times ${at}`);
    assert.ok(new Set(seen.map(({ headers }) => headers['idempotency-key'])).size <= 1, `${name} ${at}`);
  }
}

/** A run whose driver's process dies at its n-th commit, before or after it is written; others take the run up. */
async function undergo(
  engine: Engine,
  fate: { agent: string; dieAt: number; written: boolean },
): Promise<{ run: string; count: number }> {
  engine.say(scenario);
  engine.toolsAnswer(() => undefined);
  const { run } = await engine.start(fate.agent, 'do it all');
  let count = 0;
  const commit: CommitChange = async (change) => {
    count += 1;
    if (count < fate.dieAt) return engine.context.commit(change);
    if (count === fate.dieAt && fate.written) await engine.context.commit(change);
    throw new Error('the process died');
  };
  const mortal = { ...engine.context, commit };
  for (let round = 0; round < 20; round++) {
    const end = await engine.drive(run, count < fate.dieAt ? mortal : engine.context).catch(() => 'died');
    if (end === 'died') await engine.everyoneDies();
    // The jobs of a commit that was not told are swept from the outbox.
    else if ((await engine.makeCalls(run)).length === 0) return { run, count };
  }
  throw new Error('the run has no end');
}

/** Dies when the outcome of a call is to be written. */
function dyingAtOutcome(context: Context): Context {
  const commit: CommitChange = (change) =>
    change.events.some((event) => /^tool\.(succeeded|failed|unknown)$/.test(event.type)) &&
    !change.events.some((event) => (event.payload as { error?: { code: string } }).error?.code === 'interrupted')
      ? Promise.reject(new Error('the process died'))
      : context.commit(change);
  return { ...context, commit };
}

/** What the model has read and said, by the places of the conversation; results without what differs between runs. */
async function results(engine: Engine, run: string): Promise<string[]> {
  const conversation = await engine.conversation(run);
  return conversation.flatMap(({ content }) =>
    content.map((block) => {
      if (block.type !== 'tool_result') return JSON.stringify(block);
      const { tool_use_id: id, content: result } = block satisfies ToolResultBlock;
      return `${id}: ${typeof result === 'string' ? result : JSON.stringify(result)}`;
    }),
  );
}
