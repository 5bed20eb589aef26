import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { RunEvent } from '../../core/events.ts';
import type { TracedRun } from '../../core/spans/attributes.ts';
import { beginReading, type Reading } from '../../core/spans/fold-turn.ts';
import { isTold, tell, TRACED_TYPES } from '../../core/spans/turn-spans.ts';
import { fixedId } from '../../core/ids.ts';
import { parseTraceparent, spanIdOf, underCall } from '../../core/trace-context.ts';
import { RUN_ID, simulate } from '../support/simulated-driver.ts';

const RUN: TracedRun = {
  id: RUN_ID,
  tenant_id: fixedId('tenant'),
  agent_id: fixedId('agent'),
  agent_version: '1.0.0',
  agent_name: 'simulated',
  thread_id: fixedId('thread'),
  kind: 'agent',
  root_run_id: RUN_ID,
  traceparent: null,
  parent_run_id: null,
  parent_task_id: null,
  parent_kind: null,
  parent_turn_id: null,
};
const LIMITS = { maxSteps: 5, turnTimeoutMs: 60_000, onUnknown: 'ask' as const };

/** Logs of up to three turns, an event a second. */
const logs = fc.tuple(fc.array(fc.nat(49), { maxLength: 60 }), fc.boolean()).map(([tape, keepOpen]) =>
  simulate(tape, LIMITS, keepOpen).events.map((event) => ({
    ...event,
    occurred_at: new Date(1_800_000_000_000 + event.seq * 1000).toISOString(),
  })),
);

/**
 * What the commits that end at these positions tell. `keeper`: the process that tells a commit, of those that keep what they
 * have read; undefined: one that has read nothing.
 */
function toldBy(
  events: readonly RunEvent[],
  ends: readonly number[],
  keeper: (end: number) => number | undefined = () => undefined,
) {
  const kept = new Map<string, Reading>();
  return ends.flatMap((end, index) => {
    const after = ends[index - 1] ?? 0;
    const committed = events.filter(({ seq }) => seq > after && seq <= end);
    const turns = new Set(committed.filter(isTold).map((event) => event.turn_id));
    const process = keeper(end);
    return [...turns].flatMap((turnId) => {
      const key = `${process} ${turnId}`;
      const reading = (process === undefined ? undefined : kept.get(key)) ?? beginReading(RUN_ID);
      const isNew = ({ seq, type, turn_id }: RunEvent) =>
        seq > reading.seq && seq <= end && turn_id === turnId && TRACED_TYPES.includes(type);
      const told = tell(reading, RUN, { events: events.filter(isNew), after, seq: end });
      if (told?.turn.isOpen) kept.set(key, reading);
      else kept.delete(key);
      return told ?? [];
    });
  });
}

const idsIn = (told: ReturnType<typeof toldBy>) =>
  told.flatMap(({ finished, turn }) => [...finished, ...(turn.isOpen ? [] : [turn])]).map(({ id }) => id);

/** Where commits of these sizes end. */
function endsOf(events: readonly RunEvent[], sizes: fc.Stream<number>): number[] {
  const last = events.at(-1)?.seq ?? 0;
  const ends: number[] = [];
  for (let at = 0; at < last;) {
    at = Math.min(last, at + (sizes.next().value ?? 1));
    ends.push(at);
  }
  return ends;
}

describe('The spans of a turn', () => {
  it('are told once each, however its log was committed', () => {
    fc.assert(
      fc.property(logs, fc.infiniteStream(fc.integer({ min: 1, max: 9 })), (events, sizes) => {
        const ends = endsOf(events, sizes);
        const [inPieces, each] = [
          toldBy(events, ends),
          toldBy(
            events,
            events.map(({ seq }) => seq),
          ),
        ];
        const ids = idsIn(inPieces);
        assert.equal(new Set(ids).size, ids.length);
        assert.deepEqual(ids.toSorted(), idsIn(each).toSorted());
      }),
    );
  });

  it('are the same whatever process tells a commit, and whatever it has read of the turn before', () => {
    fc.assert(
      fc.property(
        logs,
        fc.infiniteStream(fc.integer({ min: 1, max: 9 })),
        fc.infiniteStream(fc.option(fc.nat(2), { nil: undefined })),
        (events, sizes, processes) => {
          const ends = endsOf(events, sizes);
          assert.deepEqual(
            toldBy(events, ends, () => processes.next().value),
            toldBy(events, ends),
          );
        },
      ),
    );
  });

  it('have one for each model call that was answered or failed, and each tool call that has ended', () => {
    fc.assert(
      fc.property(logs, (events) => {
        const ends = events.filter(({ type }) => /^turn\.(completed|failed|interrupted)$/.test(type));
        const told = new Set(
          idsIn(
            toldBy(
              events,
              events.map(({ seq }) => seq),
            ),
          ),
        );
        for (const end of ends) {
          assert.ok(told.has(spanIdOf(end.turn_id ?? '')));
          for (const event of events.filter(({ turn_id, seq }) => turn_id === end.turn_id && seq < end.seq)) {
            if (/^model\.(responded|failed)$/.test(event.type)) assert.ok(told.has(spanIdOf(`${RUN_ID} ${event.seq}`)));
            if (event.type === 'tool.requested') assert.ok(told.has(spanIdOf(event.payload.tool_call_id)));
          }
        }
      }),
    );
  });

  it('lie within their turn, and begin before they end', () => {
    fc.assert(
      fc.property(logs, (events) => {
        for (const { turn, finished } of toldBy(events, [events.at(-1)?.seq ?? 0])) {
          if (turn.isOpen) continue;
          for (const span of finished) {
            assert.ok(
              turn.startMs <= span.startMs && span.startMs <= span.endMs && span.endMs <= turn.endMs,
              span.name,
            );
          }
        }
      }),
    );
  });

  it('are those of what has ended with the turn, not of a model that was told later to stop', () => {
    const { events } = simulate([], LIMITS, false);
    const end = events.find(({ type }) => type === 'turn.completed' || type === 'turn.failed');
    assert.ok(end);
    const before = events.filter(({ seq }) => seq <= end.seq);
    const error = { code: 'interrupted', message: '' };
    const later = [
      { ...end, seq: end.seq + 1, type: 'model.failed', payload: { model: 'm', error } },
      { ...end, seq: end.seq + 2, type: 'run.status_changed', payload: { from: 'executing', to: 'awaiting_human' } },
    ] as RunEvent[];
    const ids = (told: readonly RunEvent[]) => idsIn(toldBy(told, [end.seq + 2]));
    assert.deepEqual(ids([...before, ...later]), ids(before));
  });

  it('begin a trace of their tree where the run has none', () => {
    const [told] = toldBy(simulate([], LIMITS, false).events, [1000]);
    assert.deepEqual(told?.parent, { traceId: RUN_ID.replaceAll('-', ''), flags: '01' });
  });

  it('are under the call that delegates to the run in its first turn alone: a later one is asked for elsewhere', () => {
    const child = {
      ...RUN,
      parent_run_id: fixedId('parent'),
      parent_task_id: fixedId('call'),
      parent_kind: 'agent' as const,
    };
    fc.assert(
      fc.property(logs, (events) => {
        for (const turnId of new Set(events.map(({ turn_id }) => turn_id))) {
          const ofTurn = events.filter(({ turn_id, type }) => turn_id === turnId && TRACED_TYPES.includes(type));
          const told = tell(beginReading(RUN_ID), child, { events: ofTurn, after: 0, seq: events.at(-1)?.seq ?? 0 });
          const isFirst = told?.turn.attributes['drover.turn.number'] === 1;
          assert.equal(told?.parent.spanId, isFirst ? spanIdOf(fixedId('call')) : undefined);
        }
      }),
    );
  });
});

describe('A traceparent', () => {
  const given = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;

  it('is taken apart if it is valid', () => {
    assert.deepEqual(parseTraceparent(given), { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), flags: '01' });
    assert.ok(parseTraceparent(`${given.replace('00-', 'cc-')}-more`), 'a later version may have more');
    const wrong = ['', `${given}-more`, given.replace('00-', 'ff-'), given.replaceAll('b', '0'), given.toUpperCase()];
    for (const each of wrong) assert.equal(parseTraceparent(each), undefined, each);
  });

  it('names the span of a call to whoever works for it, and stays as it is otherwise', () => {
    assert.equal(underCall(given, 'call'), `00-${'a'.repeat(32)}-${spanIdOf('call')}-01`);
    assert.equal(underCall(undefined, 'call'), undefined);
    assert.equal(underCall('other', 'call'), 'other');
  });
});
