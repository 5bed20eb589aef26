/** If the agent has a memory, the commit that completes a turn marks it to be learnt from, and sends the job. */
import { extractionSettings } from '../../../core/definition.ts';
import type { RunChange } from '../../../db/commit-run.ts';
import { CONSOLIDATION } from '../../../jobs/consolidation.ts';
import { newId } from '../../../lib/new-id.ts';
import type { Drive } from './drive-state.ts';

/** Does nothing for children and recorded replays: their agent has heard it all before. */
export function learnFromTurn({ run, log, definition, tenantId, replaySource }: Drive, change: RunChange): void {
  const ended = log.pending.events.find(({ type }) => type === 'turn.completed');
  if (!ended?.turn_id || run.parent_run_id !== null || replaySource?.original) return;
  if (!extractionSettings(definition).enabled) return;
  const { agent_id: agentId } = run;
  const job = { tenantId, agentId, work: 'extract' as const, turnId: ended.turn_id };
  change.learns_from = { turn_id: ended.turn_id, agent_id: agentId };
  const row = { id: newId(), queue: CONSOLIDATION.name, job_id: CONSOLIDATION.id(job), payload: job };
  change.outbox = [...(change.outbox ?? []), row];
}
