import assert from 'node:assert/strict';
import { RUN_STATUSES, TERMINAL, type RunStatus } from '../../core/events.ts';
import { mayBecome } from '../../core/transitions.ts';

/** The arrows between two states that a run of a single turn takes. */
const BASIC = `
  CREATED --> INITIALIZING
  INITIALIZING --> PLANNING
  INITIALIZING --> FAILED
  PLANNING --> EXECUTING
  PLANNING --> AWAITING_HUMAN
  PLANNING --> FAILED
  EXECUTING --> EXECUTING
  EXECUTING --> AWAITING_TOOL
  EXECUTING --> REFLECTING
  EXECUTING --> FAILED
  AWAITING_TOOL --> EXECUTING
  AWAITING_TOOL --> FAILED
  AWAITING_HUMAN --> PLANNING
  AWAITING_HUMAN --> CANCELLED
  REFLECTING --> PLANNING
  REFLECTING --> COMPLETED
  REFLECTING --> FAILED
`;

/** What was added since: runs that are kept open, waits of tools, and completion from outside. */
const ADDED = `
  CREATED --> COMPLETED
  AWAITING_HUMAN --> COMPLETED
  REFLECTING --> AWAITING_HUMAN
  AWAITING_TOOL --> AWAITING_HUMAN
  EXECUTING --> AWAITING_HUMAN
  AWAITING_HUMAN --> EXECUTING
`;

function arrows(text: string): Set<string> {
  return new Set([...text.toLowerCase().matchAll(/(\w+) --> (\w+)/g)].map(([, from, to]) => `${from} ${to}`));
}

describe('The state machine of a run', () => {
  const unfinished = RUN_STATUSES.filter((status) => !TERMINAL.includes(status));
  const pairs = RUN_STATUSES.flatMap((from) => RUN_STATUSES.map((to): [RunStatus, RunStatus] => [from, to]));

  it('allows the basic arrows, those that were added and the ends from outside, and nothing else', () => {
    const ends = unfinished.flatMap((from) => [`${from} cancelled`, `${from} failed`]);
    const expected = new Set([...arrows(BASIC), ...arrows(ADDED), ...ends]);
    const allowed = pairs.filter(([from, to]) => mayBecome(from, to)).map(([from, to]) => `${from} ${to}`);
    assert.deepEqual(allowed.toSorted(), [...expected].toSorted());
  });

  it('never leaves a final state', () => {
    const left = pairs.filter(([from, to]) => TERMINAL.includes(from) && mayBecome(from, to));
    assert.deepEqual(left, []);
  });

  it('leads from every unfinished state to every final one', () => {
    for (const from of unfinished) {
      const reached = new Set<RunStatus>([from]);
      for (const at of reached) RUN_STATUSES.filter((to) => mayBecome(at, to)).forEach((to) => reached.add(to));
      for (const end of TERMINAL) assert.ok(reached.has(end), `${from} never becomes ${end}`);
    }
  });
});
