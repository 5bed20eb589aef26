import assert from 'node:assert/strict';
import { UnrecoverableError, type Job } from 'bullmq';
import { CorruptCheckpointError } from '../../../modules/run-log/errors.ts';
import { TURNS } from '../../../jobs/turns.ts';
import { handleJob } from '../../../workers/handle-job.ts';
import { handler } from '../../../workers/handlers/turns.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';

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
  const checkpoints = (run: string) =>
    engine.rows<{ seq: number; id: string; parent_id: string | null; steps: number }>(
      "select seq, id, parent_id, (state->>'steps')::int as steps from checkpoints where run_id = $1 order by seq",
      run,
    );
  const TAMPER = `update checkpoints set state = jsonb_set(state, '{steps}', '99') where run_id = $1`;

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
    await engine.tamper(
      `update run_events set payload = '{}' where run_id = $1 and seq < $2 and type = 'model.responded'`,
      run,
      second.seq,
    );
    await engine.post(agent, run, 'third');
    assert.equal(await engine.drive(run), 'dormant');
    assert.equal((await checkpoints(run)).at(-1)?.parent_id, second.id);
  });

  it('uses the parent of a checkpoint that does not fit its hash, and says so once', async () => {
    const run = await twoTurns();
    const [, second] = await checkpoints(run);
    await engine.tamper(`${TAMPER} and seq = $2`, run, second?.seq);
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

  it('folds the whole log where no checkpoint fits', async () => {
    const run = await twoTurns();
    await engine.tamper(TAMPER, run);
    await thirdTurn(run);
    const bad = (await checkpoints(run)).slice(0, 2).map(({ seq }) => seq);
    assert.deepEqual(
      (await corrupt(run)).toSorted((a, b) => a - b),
      bad,
    );
  });

  it('takes a hash that was changed for a state that was', async () => {
    const run = await twoTurns();
    await engine.tamper(`update checkpoints set hash = 'none' where run_id = $1`, run);
    await thirdTurn(run);
    assert.equal((await corrupt(run)).length, 2);
  });

  const damages: [what: string, where: RegExp, sql: string][] = [
    [
      'a message was changed',
      /message 1 does not fit its hash/,
      `update messages set content = '[{"type":"text","text":"other"}]' where run_id = $1 and ordinal = 1`,
    ],
    [
      'a message is missing',
      /message 2 does not fit its hash/,
      'delete from messages where run_id = $1 and ordinal = 1',
    ],
    [
      'the last message is missing',
      /it has 5 messages instead of 6/,
      'delete from messages where run_id = $1 and ordinal = 5',
    ],
    [
      'an event cannot be read',
      /event \d+ cannot be read/,
      `update run_events set payload = '{}' where run_id = $1 and type = 'turn.started'`,
    ],
    [
      'an event is missing',
      /event \d+ cannot be read/,
      `delete from run_events where run_id = $1 and type = 'run.started'`,
    ],
  ];
  for (const [what, where, sql] of damages) {
    it(`fails with CorruptCheckpointError, and says where, when ${what}`, async () => {
      const run = await twoTurns();
      await engine.post(agent, run, 'third');
      await engine.tamper('delete from checkpoints where run_id = $1', run);
      await engine.tamper(sql, run);
      await assert.rejects(engine.drive(run), (error: unknown) => {
        assert.ok(error instanceof CorruptCheckpointError, String(error));
        assert.match(error.message, where);
        return true;
      });
      await assert.rejects(
        handleJob(engine.context, handler, { ...DUTY, job: jobOf(engine, run) }),
        UnrecoverableError,
      );
      const row = await engine.row<{ status: string; error: { code: string; message: string } }>(
        'select status, error from runs where id = $1',
        run,
      );
      assert.deepEqual([row.status, row.error.code], ['failed', 'CorruptCheckpointError']);
      assert.match(row.error.message, where);
    });
  }

  it('passes over the checkpoint of a newer build, and reads the events before it', async () => {
    const run = await twoTurns();
    await engine.tamper(
      `update checkpoints set state = state || '{"log_version": 9999, "steps": 99}' where run_id = $1`,
      run,
    );
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
