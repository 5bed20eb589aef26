/** Remote agents whose words cannot be kept as they came, or are too many. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { LIMITS } from '../../../core/limits.ts';
import type { CommitChange } from '../../../modules/run-log/group-commit.ts';
import { createEgress } from '../../../tools/egress.ts';
import { createTools } from '../../../tools/execute-tool.ts';
import { methodOf } from '../../support/a2a-server.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { endOfCall, endPause } from '../../support/queries/tool-calls.ts';
import { attemptOf, briefly, toolOf } from '../../support/tool-attempt.ts';

const HALF = '\ud83d';
const NUL = '\0';

describe('A remote agent that says what cannot be kept', () => {
  let engine: Engine;
  let agent: string;

  before(async () => {
    engine = await openEngine();
    const transport = { type: 'a2a' as const, endpoint: engine.tools.url, max_seconds: 60 };
    agent = await engine.agent({}, [{ name: 'remote', transport }]);
    engine.say((request, n) =>
      n === 0 ? use({ name: offered(request, 'remote'), input: { message: 'do it' } }) : text('so'),
    );
  });
  after(() => engine.close());

  /** A run whose call the agent answers with these tasks, one after the other. */
  const begun = async (...tasks: object[]): Promise<string> => {
    engine.toolsAnswer(async ({ body }, n) => {
      const task = { id: 't', contextId: 'c', ...(tasks[n] ?? tasks.at(-1)) };
      return { status: 200, body: { jsonrpc: '2.0', id: 1, result: methodOf(body) === 'GetTask' ? task : { task } } };
    });
    engine.model.requests.length = 0;
    const { run } = await engine.start(agent, 'go');
    assert.equal(await engine.drive(run), 'yielded');
    return run;
  };
  const asks = (...texts: string[]) => ({
    status: { state: 'TASK_STATE_INPUT_REQUIRED', message: { parts: texts.map((each) => ({ text: each })) } },
  });
  const asked = async (run: string) =>
    (await engine.log(run)).flatMap((event) => (event.type === 'input.requested' ? [event.payload.question] : []));

  for (const [what, odd] of [
    ['half an emoji', HALF],
    ['a NUL', NUL],
  ] as const) {
    it(`asks a person, with a sign in the place of ${what}, at once or at a look`, async () => {
      const question = asks(`Which one? ${odd}`);
      const working = { status: { state: 'TASK_STATE_WORKING' } };
      for (const tasks of [[question], [working, question]]) {
        const run = await begun(...tasks);
        for (const _ of tasks) {
          await engine.makeCalls(run);
          await endPause(engine, run);
        }
        assert.deepEqual(await asked(run), ['Which one? \ufffd']);
      }
    });

    it(`has given a bad answer where its task is known by ${what}`, async () => {
      for (const ids of [{ id: `t${odd}` }, { contextId: `c${odd}` }]) {
        const run = await begun({ ...asks('How?'), ...ids });
        assert.deepEqual(await engine.makeCalls(run), [{ kind: 'done' }]);
        const { status, code } = await endOfCall(engine, run);
        assert.deepEqual([status, code], ['failed', 'bad-answer']);
      }
    });
  }

  it('asks with the beginning of a question that is longer than a message may be', async () => {
    const run = await begun(asks('?'.repeat(9_000_000)));
    await engine.makeCalls(run);
    const [question] = await asked(run);
    assert.equal(question?.length, LIMITS.errorChars + 1);
  });

  it('has a call that ends or asks at its first answer, whatever that answer consists of', async () => {
    const states = ['INPUT_REQUIRED', 'AUTH_REQUIRED', 'COMPLETED', 'FAILED', 'REJECTED'].map(
      (each) => `TASK_STATE_${each}`,
    );
    const unit = fc.oneof(
      fc.constantFrom(HALF, '\ude00', NUL, '"', '\\'),
      fc.string({ unit: 'grapheme', maxLength: 3 }),
    );
    const words = fc.array(unit, { maxLength: 6 }).map((units) => units.join(''));
    const part = fc.oneof(
      fc.record({ text: words }),
      fc.record({ data: fc.dictionary(words, words), filename: words, mediaType: words }),
      fc.record({ url: words, filename: words }),
    );
    const task = fc.record({
      id: words,
      contextId: words,
      status: fc.record({ state: fc.constantFrom(...states), message: fc.record({ parts: fc.array(part) }) }),
      artifacts: fc.array(fc.record({ name: words, parts: fc.array(part) })),
    });
    await fc.assert(
      fc.asyncProperty(task, async (odd) => {
        const run = await begun(odd);
        assert.deepEqual(await engine.makeCalls(run), [{ kind: 'done' }]);
        const { status } = await endOfCall(engine, run);
        assert.ok(['succeeded', 'failed'].includes(status) || (await asked(run)).length === 1, status);
      }),
      { numRuns: 25 },
    );
  });

  it('has a call that fails at once where the database takes nothing of what it has answered', async () => {
    const run = await begun({ ...asks('How?'), id: 'told' });
    const commit: CommitChange = (change) =>
      JSON.stringify(change).includes('told')
        ? Promise.reject(Object.assign(new Error('unsupported Unicode escape sequence'), { code: '22P05' }))
        : engine.context.commit(change);
    assert.deepEqual(await engine.makeCalls(run, { ...engine.context, commit }), [{ kind: 'done' }]);
    const { status, code } = await endOfCall(engine, run);
    assert.deepEqual([status, code], ['failed', 'bad-output']);
  });

  it('has failed where it asks after its time limit', async () => {
    let at = 0;
    const tools = createTools({
      egress: createEgress({ allow: [], allowLoopback: true }),
      stdioCommands: [],
      now: () => new Date(at),
    });
    const tool = toolOf({ type: 'a2a', endpoint: engine.tools.url, max_seconds: 60 });
    await begun({ status: { state: 'TASK_STATE_WORKING' } }, asks('Still there?'));
    const first = await tools.execute(tool, attemptOf({ message: 'go' }));
    assert.ok(first.kind === 'elsewhere');
    at = 60_000;
    const second = await tools.execute(tool, attemptOf({}, { remote: first.remote }));
    assert.deepEqual([briefly(second), 'remote' in second], ['error deadline', true]);
    await tools.close();
  });
});
