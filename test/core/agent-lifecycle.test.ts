import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { AGENT_STATUSES, nextAgentStatus, type AgentStatus, type AgentTrigger } from '../../core/agent-lifecycle.ts';

const beat = (tasks: number, heartbeats = 0): AgentTrigger => ({ type: 'heartbeat', tasks, heartbeats });

/** Which trigger leads from which state to which. */
const TABLE: readonly [from: AgentStatus, trigger: AgentTrigger, to: AgentStatus | undefined][] = [
  ['registering', { type: 'validated' }, 'active'],
  ['registering', { type: 'refused' }, 'failed'],
  ['active', beat(0), 'idle'],
  ['active', { type: 'task_assigned' }, 'busy'],
  ['idle', { type: 'task_assigned' }, 'busy'],
  ['idle', { type: 'lapsed' }, 'offline'],
  ['busy', beat(1), 'busy'],
  ['busy', { type: 'tasks_ended' }, 'active'],
  ['busy', { type: 'lapsed' }, 'offline'],
  ['offline', beat(0, 1), 'offline'],
  ['offline', beat(0, 2), 'offline'],
  ['offline', beat(0, 3), 'active'],
  ['offline', { type: 'task_assigned' }, undefined],
  ['offline', { type: 'deprecated' }, 'deprecated'],
  ['deprecated', beat(0, 9), undefined],
  ['failed', { type: 'deprecated' }, undefined],
];

describe('the lifecycle of an agent', () => {
  for (const [from, trigger, to] of TABLE) {
    it(`goes from ${from} by ${JSON.stringify(trigger)} to ${to ?? 'nowhere'}`, () => {
      assert.equal(nextAgentStatus(from, trigger), to);
    });
  }

  it('never leaves deprecated, and comes back from offline by heartbeats alone', () => {
    const trigger = fc.oneof(
      fc.record({ type: fc.constant('heartbeat' as const), tasks: fc.nat(3), heartbeats: fc.nat(5) }),
      fc
        .constantFrom('validated', 'refused', 'task_assigned', 'tasks_ended', 'lapsed', 'deprecated')
        .map((type) => ({ type })),
    );
    fc.assert(
      fc.property(fc.constantFrom(...AGENT_STATUSES), trigger, (from, by) => {
        const to = nextAgentStatus(from, by);
        if (from === 'deprecated' || from === 'failed') assert.equal(to, undefined);
        if (from === 'offline' && to === 'active') assert.ok(by.type === 'heartbeat' && by.heartbeats >= 3);
      }),
    );
  });
});
