import assert from 'node:assert/strict';
import type { Tx } from '../../../db/database.ts';
import { readActions, type LoggedAction } from '../../../modules/conversations/action-log.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { analyze, countRowsRead } from '../../support/queries/postgres.ts';
import { sized } from '../../support/size.ts';

const STEPS = sized({ usual: 40, nightly: 200 });

describe('The log of a run as actions', () => {
  let engine: Engine;
  let run: string;

  before(async () => {
    engine = await openEngine();
    const limits = { execution_config: { max_turns: STEPS } };
    const agent = await engine.agent({ tools: ['calculator'], ...limits });
    const sum = (n: number) => ({ name: 'calculator', input: { expression: `${n} + 1` } });
    const steps = (count: number) => Array.from({ length: count }, (_, n) => use(sum(n), sum(n + 1)));
    // The first turn ends at its limit, with an answer that says nothing before the last one.
    engine.say([...steps(STEPS), { content: [] }, text('all that I have'), text('no sums'), ...steps(3), text('done')]);
    ({ run } = await engine.start(agent, 'first', { config: { keep_open: true } }));
    await engine.finish(run);
    for (const message of ['second', 'third']) {
      await engine.post(agent, run, message);
      await engine.finish(run);
    }
  });
  after(() => engine.close());

  const page = (tx: Tx, after: number, limit: number) =>
    readActions(tx, engine.caller, { path: { run }, after, limit, snapshots: false });
  const readAll = async (limit: number) => {
    const actions: LoggedAction[] = [];
    for (let after: number | undefined = 0; after !== undefined;) {
      const from: number = after;
      const read = await engine.context.db.withTenant(engine.tenantId, (tx) => page(tx, from, limit));
      actions.push(...read.actions);
      after = read.next;
    }
    return actions;
  };

  it('is the same, however many events are asked for at a time', async () => {
    const whole = await readAll(10_000);
    const types = new Set(whole.map(({ type }) => type));
    for (const type of [
      'max_steps_reached',
      'final_summary_generation',
      'context_transformation',
      'run_completed',
    ] as const)
      assert.ok(types.has(type), type);
    for (const limit of [1, 3, 20]) assert.deepEqual(await readAll(limit), whole, `${limit} at a time`);
  });

  it('costs what a page shows, wherever in a turn that is', async () => {
    const whole = await readAll(10_000);
    const end = whole.find(({ type }) => type === 'run_completed')?.event.seq ?? 0;
    const { db } = engine.context;
    await analyze(db);
    for (const after of [0, 10, Math.floor(end / 2), end - 30]) {
      const { counts } = await countRowsRead(db, engine.tenantId, (tx) => page(tx, after, 6));
      const ofLog = [...counts].filter(([table]) => table.startsWith('run_log'));
      const count = ofLog.reduce((sum, [, rows]) => sum + rows, 0);
      assert.ok(count > 0 && count <= 30, `${count} rows of the log were read after ${after}`);
    }
  });
});
