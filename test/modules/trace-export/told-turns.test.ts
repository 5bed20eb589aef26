/** What becomes of spans that wait to be read off logs, and of those that cannot be read. */
import assert from 'node:assert/strict';
import { pino } from 'pino';
import { LIMITS } from '../../../core/limits.ts';
import { isTold } from '../../../core/spans/turn-spans.ts';
import type { Database } from '../../../db/database.ts';
import { newId } from '../../../lib/new-id.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { openTraces } from '../../../modules/trace-export/open-traces.ts';
import type { TracedCommit } from '../../../modules/traces.ts';
import { startCollector, type Collector } from '../../support/collector.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { blankEvents, raiseEvents } from '../../support/queries/logs.ts';
import { waitUntil } from '../../support/wait-until.ts';

describe('The spans of turns that have ended', () => {
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

  /** What a process exports with, how many turns it has read, and what it has said about that. */
  async function openProcess() {
    const counts = { read: 0 };
    const lines: string[] = [];
    const { db } = engine.context;
    const counting: Database = {
      ...db,
      withTenant: async (tenant, work) => {
        try {
          return await db.withTenant(tenant, work);
        } finally {
          counts.read += 1;
        }
      },
    };
    const settings = { exporters: ['otlp' as const], protocol: 'http/json' as const, url: collector.url };
    const log = pino({}, { write: (line: string) => void lines.push(line) });
    return { traces: await openTraces(settings, { db: counting, log }), counts, lines };
  }

  /** A run whose turn has ended, and the commit that ended it. */
  async function endedTurn(): Promise<{ run: string; commit: TracedCommit }> {
    const commits: TracedCommit[] = [];
    engine.say(() => text('done'));
    const { run } = await engine.start(await engine.agent(), 'begin');
    const traces = {
      beginRequest: () => assert.fail('no request'),
      committed: (commit: TracedCommit) => void commits.push(commit),
      close: () => Promise.resolve(),
    };
    const context: Context = { ...engine.context, traces };
    await engine.drive(run, context);
    const commit = commits.find(({ events }) => events.some(isTold));
    assert.ok(commit);
    return { run, commit };
  }
  const toldOf = (run: string) =>
    collector.spans.filter(({ attributes }) => attributes['drover.run.id'] === run).length;

  it('are exported again once those that waited are read, however many there have been', async () => {
    const { traces, counts, lines } = await openProcess();
    const { run, commit } = await endedTurn();
    for (let n = 0; n <= LIMITS.tracedTurns; n += 1) traces.committed({ ...commit, runId: newId() });
    assert.match(lines.join(), /spans are not read/, 'one more than may wait');
    await waitUntil('the others are read', () => counts.read === LIMITS.tracedTurns);
    traces.committed(commit);
    await traces.close();
    assert.equal(toldOf(run), 2);
  });

  it('are each told once where the commits of one turn are told in another order', async () => {
    const { traces } = await openProcess();
    const commits: TracedCommit[] = [];
    const keep = {
      beginRequest: () => assert.fail('no request'),
      committed: (commit: TracedCommit) => void (commit.events.some(isTold) && commits.push(commit)),
      close: () => Promise.resolve(),
    };
    const steps = 3 * LIMITS.tracedSteps - 5;
    engine.say((_, n) => (n < steps - 1 ? use({ name: 'calculator', input: { expression: `${n}` } }) : text('done')));
    const agent = await engine.agent({ tools: ['calculator'], execution_config: { max_turns: steps } });
    const { run } = await engine.start(agent, 'count');
    while ((await engine.drive(run, { ...engine.context, traces: keep })) === 'yielded');
    const [first, second, ...last] = commits;
    assert.ok(first && second && last.length > 0);
    for (const commit of [second, first, ...last]) traces.committed(commit);
    await traces.close();
    const ids = collector.spans
      .filter(({ attributes }) => attributes['drover.run.id'] === run)
      .map(({ spanId }) => spanId);
    assert.equal(new Set(ids).size, ids.length);
    assert.equal(ids.length, 2 * steps, 'the turn, its model calls, and the calls of all but the last');
  });

  it('are told by newer builds where only those can read them, and nobody is warned of that', async () => {
    const { traces, lines } = await openProcess();
    const { run, commit } = await endedTurn();
    await raiseEvents(engine, run, 'model.responded');
    traces.committed(commit);
    await traces.close();
    assert.deepEqual([toldOf(run), lines], [0, []]);
  });

  it('are warned of where nobody can read them', async () => {
    const { traces, lines } = await openProcess();
    const { run, commit } = await endedTurn();
    await blankEvents(engine, run, { type: 'model.responded' });
    traces.committed(commit);
    await traces.close();
    assert.equal(toldOf(run), 0);
    assert.match(lines.join(), /spans are not read/);
  });
});
