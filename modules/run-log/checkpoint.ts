/** Checkpoints: a verified position in a run's log and messages, from which it can resume or fork. */
import { LOG_VERSION } from '../../core/events.ts';
import { canonicalJson, digestOf, sha256 } from '../../core/ids.ts';
import { upcastState } from '../../core/upcast.ts';
import { newId } from '../../lib/new-id.ts';
import { isSettled, type RunState } from '../../core/state.ts';
import type { CheckpointRow, MessageRow, StoredState } from '../../db/claim-run.ts';

/** Chain hash of a message: over the one before and its own canonical content (RFC 8785, SHA-256, hex). */
export function chainOf(previous: string, message: { role: string; content: unknown }): string {
  return sha256(`${previous}\n${canonicalJson({ role: message.role, content: message.content })}`).toString('hex');
}

/** The integrity hash: over the state and the chain of all messages before it. */
export function checkpointHash(state: StoredState, chain: string): string {
  return digestOf({ state, chain });
}

export interface NewCheckpoint {
  tenantId: string;
  runId: string;
  parentId: string | null;
  trigger: 'turn_complete' | 'tool_result' | 'manual';
  state: RunState;
  chain: string;
  id?: string | undefined;
}

/** A row of `checkpoints`; its cost does not depend on the length of the run. */
export function checkpointRow(input: NewCheckpoint) {
  const { state } = input;
  const stored: StoredState = { ...state, log_version: LOG_VERSION };
  return {
    tenant_id: input.tenantId,
    run_id: input.runId,
    seq: state.seq,
    id: input.id ?? newId(),
    parent_id: input.parentId,
    node: 'agent',
    trigger: input.trigger,
    lineage: state.lineage,
    length: state.length,
    state: stored,
    channel_versions: { messages: state.length, current_node: state.steps, iteration: state.steps, custom: 0 },
    pending_sends: state.calls
      .filter((call) => !isSettled(call))
      .map((call) => ({
        channel: 'tool_calls',
        value: { tool_call_id: call.id, tool: call.name, status: call.status },
      })),
    hash: checkpointHash(stored, input.chain),
    created_at: 'now',
  };
}

/** Checks every message from `first` on against its chain hash; answers the first ordinal that does not fit, or null. */
export function firstBrokenMessage(messages: readonly MessageRow[], first = 0): number | null {
  let chain = messages[first - 1]?.chain ?? '';
  for (const [index, message] of messages.slice(first).entries()) {
    chain = chainOf(chain, message);
    if (message.ordinal !== first + index || message.chain !== chain) return message.ordinal;
  }
  return null;
}

/** The state that a checkpoint holds, as this build reads it, or null if its hash does not fit. */
export function verifiedState(
  checkpoint: Pick<CheckpointRow, 'length' | 'state' | 'hash'>,
  messages: readonly MessageRow[],
): RunState | null {
  const chain = checkpoint.length === 0 ? '' : messages[checkpoint.length - 1]?.chain;
  if (chain === undefined || checkpointHash(checkpoint.state, chain) !== checkpoint.hash) return null;
  const { log_version: _, ...state } = checkpoint.state;
  return upcastState(state);
}

/**
 * Whether a newer build has saved it, with a state that may hold what this one has no word for. Then the run is read from
 * its events, as far as this build knows them.
 */
export function isOfNewerBuild({ state }: Pick<CheckpointRow, 'state'>): boolean {
  return (state.log_version ?? 0) > LOG_VERSION;
}
