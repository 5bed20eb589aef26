import assert from 'node:assert/strict';
import { UnrecoverableError, type Job } from 'bullmq';
import { CorruptCheckpointError } from '../../../modules/run-log/errors.ts';
import { readCheckpoints, requireCheckpoint } from '../../../modules/runs/read-runs.ts';
import { TURNS } from '../../../jobs/turns.ts';
import { handleJob } from '../../../workers/handle-job.ts';
import { handler } from '../../../workers/handlers/turns.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import {
  blankEvents,
  changeMessage,
  checkpointsOfRun,
  loseCheckpoints,
  loseEvents,
  loseMessage,
  raiseCheckpoints,
  spoilCheckpoints,
  spoilHashes,
} from '../../support/queries/logs.ts';
import { storedRun } from '../../support/queries/runs.ts';

describe('Restoring a run', () => {
  let engine: Engine;
  let agent: string;

  before(async () => {
    engine = await openEngine();
    agent = await engine.agent({ tools: ['calculator'] });
  });

  after(() => engine.close());

  /** A run that is kept open, with a checkpoint for each of its two turns. */
  async function twoTurns(): Promise<string> {
    engine.say([text('one'), use({ name: 'calculator', input: { expression: '1 + 1' } }), text('two'), text('three')]);
    const { run } = await engine.start(agent, 'first', { config: { keep_open: true } });
    await engine.finish(run);
    await engine.post(agent, run, 'second');
    await engine.finish(run);
    return run;
  }

  const corrupt = async (run: string) =>
    (await engine.log(run)).flatMap((event) => (event.type === 'checkpoint.corrupt' ? [event.payload.at_seq] : []));
  const checkpoints = (run: string) => checkpointsOfRun(engine, run);

  /** The third turn of the run, on what was restored. */
  async function thirdTurn(run: string): Promise<void> {
    await engine.post(agent, run, 'third');
    assert.equal(await engine.drive(run), 'dormant');
    const steps = (await engine.log(run)).flatMap(({ type, step }) => (type === 'model.responded' ? [step] : []));
    assert.deepEqual(steps, [1, 2, 3, 4]);
    const asked = JSON.stringify(engine.model.requests.at(-1)?.body['messages']);
    assert.match(asked, /first.*one.*second.*two.*third/);
  }

  it('starts from the newest checkpoint, each of which names its parent', async () => {
    const run = await twoTurns();
    const [first, second] = await checkpoints(run);
    assert.ok(first && second);
    assert.deepEqual([first.parent_id, second.parent_id], [null, first.id]);
    // Its events are not read again: that they are unreadable is not noticed.
    await blankEvents(engine, run, { type: 'model.responded', before: second.seq });
    await engine.post(agent, run, 'third');
    assert.equal(await engine.drive(run), 'dormant');
    assert.equal((await checkpoints(run)).at(-1)?.parent_id, second.id);
  });

  it('uses the parent of a checkpoint that does not fit its hash, and says so once', async () => {
    const run = await twoTurns();
    const [, second] = await checkpoints(run);
    await spoilCheckpoints(engine, run, second?.seq ?? assert.fail());
    await engine.post(agent, run, 'third');
    // The first driver dies before it has saved a better one; the second meets the same checkpoint again.
    const { commit } = engine.context;
    const dying = {
      ...engine.context,
      commit: (change: Parameters<typeof commit>[0]) =>
        change.runs.add['steps'] ? Promise.reject(new Error('the process died')) : commit(change),
    };
    await assert.rejects(engine.drive(run, dying), /the process died/);
    assert.equal(await engine.drive(run), 'dormant');
    assert.deepEqual(await corrupt(run), [second?.seq]);
    assert.equal((await checkpoints(run)).at(-1)?.steps, 4);
  });

  it('is shown as corrupt in the list once the log reports it, and by itself at once', async () => {
    const { context, caller, tenantId } = engine;
    const run = await twoTurns();
    const [first, second] = await checkpoints(run);
    assert.ok(first && second);
    await spoilCheckpoints(engine, run, second.seq);
    const listed = () =>
      context.db.withTenant(tenantId, (tx) =>
        readCheckpoints(tx, caller, { path: { run }, before: undefined, limit: 3 }),
      );
    const isCorrupt = async (checkpoint: string) =>
      (await context.db.withTenant(tenantId, (tx) => requireCheckpoint(tx, caller, { run, checkpoint }))).isCorrupt;
    assert.deepEqual([await isCorrupt(first.id), await isCorrupt(second.id)], [false, true]);
    await engine.post(agent, run, 'third');
    assert.equal(await engine.drive(run), 'dormant');
    const marks = (await listed()).map((head) => head.isCorrupt);
    assert.deepEqual(marks, [false, true, false], 'newest first');
  });

  it('folds the whole log where no checkpoint fits', async () => {
    const run = await twoTurns();
    await spoilCheckpoints(engine, run);
    await thirdTurn(run);
    const bad = (await checkpoints(run)).slice(0, 2).map(({ seq }) => seq);
    assert.deepEqual(
      (await corrupt(run)).toSorted((a, b) => a - b),
      bad,
    );
  });

  it('takes a hash that was changed for a state that was', async () => {
    const run = await twoTurns();
    await spoilHashes(engine, run);
    await thirdTurn(run);
    assert.equal((await corrupt(run)).length, 2);
  });

  const damages: [what: string, where: RegExp, damage: (run: string) => Promise<void>][] = [
    ['a message was changed', /message 1 does not fit its hash/, (run) => changeMessage(engine, run, 1)],
    ['a message is missing', /message 2 does not fit its hash/, (run) => loseMessage(engine, run, 1)],
    ['the last message is missing', /it has 5 messages instead of 6/, (run) => loseMessage(engine, run, 5)],
    [
      'an event cannot be read',
      /event \d+ cannot be read/,
      (run) => blankEvents(engine, run, { type: 'turn.started' }),
    ],
    ['an event is missing', /event \d+ cannot be read/, (run) => loseEvents(engine, run, 'run.started')],
  ];
  for (const [what, where, damage] of damages) {
    it(`fails with CorruptCheckpointError, and says where, when ${what}`, async () => {
      const run = await twoTurns();
      await engine.post(agent, run, 'third');
      await loseCheckpoints(engine, run);
      await damage(run);
      await assert.rejects(engine.drive(run), (error: unknown) => {
        assert.ok(error instanceof CorruptCheckpointError, String(error));
        assert.match(error.message, where);
        return true;
      });
      await assert.rejects(
        handleJob(engine.context, handler, { ...DUTY, job: jobOf(engine, run) }),
        UnrecoverableError,
      );
      const { status, error: stored } = await storedRun(engine, run);
      assert.deepEqual([status, stored?.code], ['failed', 'CorruptCheckpointError']);
      assert.match(stored?.message ?? '', where);
    });
  }

  it('passes over the checkpoint of a newer build, and reads the events before it', async () => {
    const run = await twoTurns();
    await raiseCheckpoints(engine, run);
    await thirdTurn(run);
    assert.deepEqual(await corrupt(run), []);
  });

  it('saves a checkpoint at every change where the agent asks for it, and none where it asks for none', async () => {
    const counts: number[] = [];
    for (const checkpoint_frequency of ['on_change', 'every_turn', 'manual'] as const) {
      const saving = await engine.agent({ tools: ['calculator'], execution_config: { checkpoint_frequency } });
      const sum = use({ name: 'calculator', input: { expression: '1 + 1' } });
      engine.say([sum, sum, text('done')]);
      const { run } = await engine.start(saving, 'go');
      await engine.finish(run);
      counts.push((await checkpoints(run)).length);
    }
    assert.deepEqual(counts, [3, 1, 0]);
  });
});

const DUTY = { stop: new AbortController().signal, draining: () => false, token: 'token' };

/** The job as BullMQ would give it: its first attempt of five. */
function jobOf({ tenantId }: Engine, runId: string): Job {
  return {
    name: TURNS.name,
    queueName: TURNS.name,
    data: { tenantId, runId, seq: 1 },
    opts: { attempts: 5 },
    attemptsMade: 0,
    moveToDelayed: async () => undefined,
  } as unknown as Job;
}
