import assert from 'node:assert/strict';
import { TRACED_TYPES } from '../../../core/spans/turn-spans.ts';
import type { Database, Tx } from '../../../db/database.ts';
import { openTraces } from '../../../modules/trace-export/open-traces.ts';
import type { Context } from '../../../modules/governance/context.ts';
import type { TracedCommit } from '../../../modules/traces.ts';
import { startCollector, type Collector } from '../../support/collector.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';

/** Spans are told four times before the end. */
const STEPS = 110;

describe('The spans of a long turn', () => {
  let engine: Engine;
  let collector: Collector;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());
  beforeEach(async () => {
    collector = await startCollector();
  });
  afterEach(() => collector.close());

  /** What a process would export with, and how many events of logs it has read for that. */
  async function openProcess() {
    const read: unknown[] = [];
    const db: Database = {
      ...engine.context.db,
      withTenant: (tenant, work) =>
        engine.context.db.withTenant(tenant, (tx) => {
          const query: Tx['query'] = async <R extends object>(sql: string, values?: readonly unknown[]) => {
            const rows = await tx.query<R>(sql, values);
            if (sql.includes('run_events')) read.push(...rows);
            return rows;
          };
          return work({ ...tx, query });
        }),
    };
    const settings = { exporters: ['otlp' as const], protocol: 'http/json' as const, url: collector.url };
    const traces = await openTraces(settings, { db, log: engine.context.log });
    return { traces, read };
  }

  /** Drives a turn of so many steps; `tellerOf`: who tells what was committed when the model had been asked so often. */
  async function driveTurn(tellerOf: (asked: number) => { committed: (commit: TracedCommit) => void }) {
    let asked = 0;
    engine.say((_, n) => {
      asked = n + 1;
      return asked < STEPS ? use({ name: 'calculator', input: { expression: `${asked}` } }) : text('done');
    });
    const agent = await engine.agent({ tools: ['calculator'], execution_config: { max_turns: STEPS } });
    const { run } = await engine.start(agent, 'count');
    const traces = {
      beginRequest: () => assert.fail('no request'),
      committed: (commit: TracedCommit) => tellerOf(asked).committed(commit),
      close: () => Promise.resolve(),
    };
    const context: Context = { ...engine.context, traces };
    while ((await engine.drive(run, context)) === 'yielded');
    const events = (await engine.log(run)).filter(({ type }) => TRACED_TYPES.includes(type));
    return { run, events: events.length };
  }

  const isAllTold = (run: string) => {
    const ids = collector.spans
      .filter(({ attributes }) => attributes['drover.run.id'] === run)
      .map((span) => span.spanId);
    assert.equal(new Set(ids).size, ids.length);
    assert.equal(ids.length, 2 * STEPS, 'the turn, its model calls, and the calls of all but the last');
  };

  it('are read off its log once, not again from its start for each part of it', async () => {
    const { traces, read } = await openProcess();
    const { run, events } = await driveTurn(() => traces);
    await traces.close();
    isAllTold(run);
    assert.ok(events > 4 * STEPS);
    assert.ok(read.length <= events, `${read.length} events read of ${events}`);
  });

  it('are read once by each process that tells some, and are told once, also where one dies or comes back', async () => {
    const [first, second, heir] = [await openProcess(), await openProcess(), await openProcess()];
    // The second has died after step 80; the first comes back for a moment before.
    const { run, events } = await driveTurn((asked) =>
      asked <= 30 ? first.traces : asked <= 60 ? second.traces : asked <= 80 ? first.traces : heir.traces,
    );
    for (const { traces } of [first, second, heir]) await traces.close();
    isAllTold(run);
    for (const { read } of [first, second, heir]) {
      assert.ok(read.length > 0 && read.length <= events, `${read.length} events read of ${events}`);
    }
  });
});
