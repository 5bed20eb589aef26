/** Saves a checkpoint of a run on a client's request. */
import { conflict } from '../../core/errors.ts';
import { atSeq, isTerminal, type NewEvent } from '../../core/events.ts';
import { newId } from '../../lib/new-id.ts';
import { fold } from '../../core/state.ts';
import { loadAgentVersion } from '../../db/agents.ts';
import { isDriven } from '../../db/leases.ts';
import type { Tx } from '../../db/database.ts';
import { loadRunIn, type RunRow } from '../../db/claim-run.ts';
import { checkpointRow } from '../run-log/checkpoint.ts';
import type { Context } from '../governance/context.ts';
import { restore } from './driver/load.ts';
import { announceAppended, appendIn, type Announcement, type AppendedChange } from '../run-log/append-to-run.ts';
import { idempotently, type IdempotentAnswer, type IdempotentRequest } from '../tenants/idempotency.ts';

interface SaveCheckpoint {
  tenantId: string;
  runId: string;
  idempotency: IdempotentRequest;
}

/**
 * Saves the state of an unfinished run; returns the checkpoint's id. Throws 409 for a finished run, and for one being driven,
 * whose current work is not committed yet.
 */
export async function saveCheckpoint(
  context: Context,
  { tenantId, runId, idempotency }: SaveCheckpoint,
): Promise<IdempotentAnswer<{ id: string }>> {
  let written: Announcement | undefined;
  const answer = await idempotently<{ id: string }>(context, idempotency, async (tx) => {
    const id = newId();
    const appended = await appendIn(tx, { tenantId, runId }, (row) => checkpointOf(tx, row, id));
    if (appended) written = { ...appended, runId, outbox: [] };
    return { status: 201, body: { id } };
  });
  if (written) announceAppended(context, written);
  return answer;
}

async function checkpointOf(tx: Tx, row: RunRow, id: string): Promise<AppendedChange> {
  if (isTerminal(row.status)) {
    throw conflict(`The run is ${row.status}; its last state is kept already.`, { status_of_run: row.status });
  }
  if (await isDriven(tx, row.id)) {
    throw conflict('The run is being driven at this moment; try again once it waits.', { status_of_run: row.status });
  }
  const ref = { tenant_id: row.tenant_id, run_id: row.id };
  const read = await loadRunIn(tx, ref);
  if (!read.ok) throw new Error(`run ${row.id} could not be read: ${read.why}`);
  const { state, loaded } = await restore((request) => loadRunIn(tx, request), read);
  const saved: NewEvent = {
    type: 'checkpoint.saved',
    actor: 'user',
    turn_id: row.open_turn_id ?? undefined,
    payload: { checkpoint_id: id, trigger: 'manual' },
  };
  const parentId = loaded.checkpoint?.id ?? null;
  const chain = loaded.messages.at(-1)?.chain ?? '';
  const definition = await loadAgentVersion(tx, row.agent_id, row.agent_version);
  const after = fold(state, atSeq(saved, state.seq + 1));
  return {
    events: [saved],
    checkpoint: checkpointRow({
      tenantId: row.tenant_id,
      runId: row.id,
      parentId,
      trigger: 'manual',
      state: after,
      chain,
      id,
      entryPoint: definition?.workflow_graph?.entry_point,
    }),
  };
}
