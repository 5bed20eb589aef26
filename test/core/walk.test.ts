import assert from 'node:assert/strict';
import fc from 'fast-check';
import { nextModelCall, type RunLimits } from '../../core/decide.ts';
import { EVENT_TYPES, isTerminal, type RunEvent } from '../../core/events.ts';
import { NODE_TYPES } from '../../core/graph/definition.ts';
import { planOf } from '../../core/graph/graph-step.ts';
import { fixedId } from '../../core/ids.ts';
import { LIMITS } from '../../core/limits.ts';
import { applyChanges, project, projectLog } from '../../core/projections.ts';
import { fold, foldAll, type RunState } from '../../core/state.ts';
import { RUN_ID, simulate, type Walk } from '../support/simulated-driver.ts';

const tapes = fc.array(fc.nat(1000), { maxLength: 150, size: 'max' });
const nodes = fc.array(fc.constantFrom(...NODE_TYPES), { minLength: 1, maxLength: 4 });
const graphs = fc.option(nodes, { nil: undefined });
const limits = fc
  .record({
    maxSteps: fc.integer({ min: 1, max: 5 }),
    turnTimeoutMs: fc.integer({ min: 50, max: 2000 }),
    onUnknown: fc.constantFrom('ask' as const, 'tell_model' as const, 'fail' as const, 'retry' as const),
    types: graphs,
    reflect: fc.boolean(),
  })
  .map(({ types, ...own }): RunLimits => {
    const named = types?.map((type, index) => ({ name: `n${index}`, type, config: {} }));
    return { ...own, ...(named && { graph: planOf({ entry_point: 'n0', nodes: named, edges: [] }) }) };
  });
const walks = fc.record({ tape: tapes, limits, keepOpen: fc.boolean() });
const walkOf = ({ tape, limits: within, keepOpen }: Parameters<typeof describeWalk>[0]): Walk =>
  simulate(tape, within, keepOpen);
const describeWalk = (walk: { tape: number[]; limits: RunLimits; keepOpen: boolean }) => walk;
const OWNER = { tenantId: fixedId('tenant'), workspaceId: fixedId('workspace'), runId: RUN_ID };

const OPEN_TURN = ['running', 'awaiting_tool', 'awaiting_human'];

describe('Every run, whatever happens to it,', () => {
  it('comes to an end by legal decisions and legal changes of its status', () => {
    // `simulate` checks each decision, each change and the end; here is what only the whole shows.
    fc.assert(
      fc.property(walks, (walk) => {
        const { events, state, calls } = walkOf(walk);
        assert.ok(isTerminal(state.status));
        assert.equal(state.turn, null);
        for (const count of calls.values())
          assert.ok(count <= walk.limits.maxSteps + 1, `${count} model calls in a turn`);
        const started = events.filter(({ type }) => type === 'turn.started').map(({ turn_id }) => turn_id);
        const ended = events.filter(({ type }) => /^turn\.(completed|failed|interrupted)$/.test(type));
        assert.deepEqual(
          ended.map(({ turn_id }) => turn_id),
          started,
        );
      }),
      { numRuns: 500 },
    );
  });

  it('visits the nodes of its graph one at a time, each visit under its own number, and within bounds', () => {
    const inGraphs = walks.filter(({ limits: { graph } }) => graph !== undefined);
    fc.assert(
      fc.property(inGraphs, (walk) => {
        const most = walk.limits.maxSteps * LIMITS.nodeVisitsPerStep;
        const visits = new Map<string, number>();
        let turn: string | undefined;
        let open: string | undefined;
        for (const event of walkOf(walk).events) {
          if (event.type === 'turn.started') {
            turn = event.turn_id;
            visits.clear();
            open = undefined;
          }
          if (event.type === 'node.entered') {
            const { node, visit } = event.payload;
            assert.deepEqual([open, event.turn_id, visit], [undefined, turn, (visits.get(node) ?? 0) + 1]);
            visits.set(node, visit);
            open = `${node} ${visit}`;
          }
          if (event.type === 'node.completed') {
            assert.equal(open, `${event.payload.node} ${event.payload.visit}`);
            open = undefined;
          }
          const all = [...visits.values()].reduce((total, count) => total + count, 0);
          assert.ok(all <= most, `${all} visits`);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('is met in every status and with every event of a driver', () => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(walks, (walk) => {
        for (const event of walkOf(walk).events) {
          seen.add(event.type === 'run.status_changed' ? event.payload.to : event.type);
        }
      }),
      { numRuns: 500, seed: 1 },
    );
    const elsewhere = [
      'run.forked',
      'run.erased',

      'run.status_changed',
      'policy.decided',
      'model.fell_back',
      'checkpoint.saved',
      'checkpoint.corrupt',
    ];
    const statuses = ['initializing', 'planning', 'executing', 'awaiting_tool', 'awaiting_human', 'reflecting'];
    // Those of workflows are the scheduler's; those of files go along with a call's result, and change nothing else.
    const isDriven = (type: string) => !elsewhere.includes(type) && !/^(task|workflow|handoff|file)\./.test(type);
    const expected = [...EVENT_TYPES.filter(isDriven), ...statuses];
    expected.push('completed', 'failed', 'cancelled');
    assert.deepEqual([...seen].toSorted(), expected.toSorted());
  });

  it('has a state that a prefix of the log and the rest give as well as the whole, stored in between or not', () => {
    fc.assert(
      fc.property(walks, fc.nat(), (walk, cut) => {
        const { events, state } = walkOf(walk);
        const at = 1 + (cut % events.length);
        const prefix = foldAll(null, events.slice(0, at));
        assert.deepEqual(foldAll(prefix, events.slice(at)), state);
        assert.deepEqual(foldAll(JSON.parse(JSON.stringify(prefix)) as RunState, events.slice(at)), state);
      }),
    );
  });

  it('folds to the same state again, and folding changes neither the events nor a state', () => {
    fc.assert(
      fc.property(walks, (walk) => {
        const { events, state } = walkOf(walk);
        events.forEach(deepFreeze);
        const again = events.reduce<RunState | null>((before, event) => deepFreeze(fold(before, event)), null);
        assert.deepEqual(again, state);
      }),
    );
  });

  it('ignores what is said of a call that it does not know', () => {
    fc.assert(
      fc.property(walks, fc.nat(), fc.nat(), (walk, cut, kind) => {
        const { events } = walkOf(walk);
        const state = foldAll(null, events.slice(0, 1 + (cut % events.length)));
        assert.ok(state);
        const stray = strayToolEvent(state.seq + 1, kind);
        assert.deepEqual(fold(state, stray), { ...state, seq: state.seq + 1 });
      }),
    );
  });

  it('has projections that agree with its state', () => {
    fc.assert(
      fc.property(walks, fc.nat(), (walk, cut) => {
        const { events } = walkOf(walk);
        const part = events.slice(0, 1 + (cut % events.length));
        const state = foldAll(null, part);
        const {
          runs: [run = {}],
          turns,
        } = projectLog(OWNER, part);
        assert.deepEqual(
          [run['status'], run['length'], run['steps'], run['turn_count'], run['open_turn_id'] ?? null],
          [state?.status, state?.length, state?.steps, state?.turnCount, state?.turn?.id ?? null],
        );
        assert.equal(sum(turns, 'steps'), state?.steps);
        for (const column of ['tokens_in', 'tokens_out']) {
          assert.equal(sum(turns, column), run[column]);
        }
        const open = turns.filter(({ status }) => OPEN_TURN.includes(String(status)));
        assert.equal(open.length, state?.turn ? 1 : 0);
        assert.equal(isTerminal(state?.status ?? 'created'), run['completed_at'] !== undefined);
      }),
    );
  });

  it('has the same projections however its events are spread over commits', () => {
    fc.assert(
      fc.property(walks, fc.infiniteStream(fc.integer({ min: 1, max: 6 })), (walk, sizes) => {
        const { events } = walkOf(walk);
        const rows = projectLog(OWNER, []);
        for (const commit of commitsOf(events, sizes)) {
          const at = (index: number) => commit[index]?.occurred_at ?? '';
          applyChanges(rows, project(OWNER, commit, { firstSeq: commit[0]?.seq ?? 0, at }));
        }
        assert.deepEqual(rows, projectLog(OWNER, events));
      }),
    );
  });

  it('announces a model call once and goes on with it after its driver has died', () => {
    fc.assert(
      fc.property(walks, (walk) => {
        let state: RunState | null = null;
        for (const event of walkOf(walk).events) {
          const isOpen: boolean = (state?.modelCall ?? null) !== null;
          assert.ok(!isOpen || event.type !== 'model.called', 'a call is announced while another is open');
          state = fold(state, event);
          if (!state.modelCall) continue;
          const call = nextModelCall(state, walk.limits);
          const { step, toolChoice } = state.modelCall;
          assert.deepEqual(call, {
            kind: 'call_model',
            step,
            toolChoice,
            announced: true,
            last: toolChoice === 'none',
          });
        }
      }),
    );
  });
});

/** Commits as a driver makes them: at most one model call's answer in each, and no more than it was given. */
function commitsOf(events: readonly RunEvent[], sizes: Iterable<number> & Iterator<number>): RunEvent[][] {
  const commits: RunEvent[][] = [];
  let left = 0;
  for (const event of events) {
    const answers = commits.at(-1)?.some(({ type }) => type === 'model.responded') && event.type === 'model.responded';
    if (left === 0 || answers || commits.length === 1) {
      commits.push([]);
      left = Number(sizes.next().value);
    }
    commits.at(-1)?.push(event);
    left -= 1;
  }
  return commits;
}

function strayToolEvent(seq: number, kind: number): RunEvent {
  const call = { tool_call_id: fixedId('nobody asked for this call') };
  const error = { code: 'c', message: 'm' };
  const by = { actor: 'worker' as const, seq, occurred_at: '' };
  const events: RunEvent[] = [
    { ...by, type: 'tool.started', payload: { ...call, attempt: 7 } },
    { ...by, type: 'tool.succeeded', payload: { ...call, latency_ms: 9, output_bytes: 1 } },
    { ...by, type: 'tool.failed', payload: { ...call, error, attempts: 1, latency_ms: 9 } },
    { ...by, type: 'tool.denied', payload: { ...call, error } },
    { ...by, type: 'tool.unknown', payload: { ...call, error, attempts: 1 } },
  ];
  const event = events[kind % events.length];
  assert.ok(event);
  return event;
}

function sum(rows: Record<string, unknown>[], column: string): number {
  return rows.reduce((total, row) => total + Number(row[column]), 0);
}

function deepFreeze<T>(value: T): T {
  if (value !== null && typeof value === 'object') {
    Object.freeze(value);
    Object.values(value).forEach(deepFreeze);
  }
  return value;
}
