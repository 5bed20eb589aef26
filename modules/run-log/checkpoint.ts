/** Checkpoints: verified positions in a run's log and messages, from which it can resume or fork. */
import { LOG_VERSION } from '../../core/events.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import { digestOf, sha256 } from '../../core/ids.ts';
import { upcastState } from '../../core/upcast.ts';
import { newId } from '../../lib/new-id.ts';
import { isSettled, type RunState } from '../../core/state.ts';
import { inSlices } from '../../lib/in-slices.ts';
import type { CheckpointRow, MessageRow, StoredState, UnreadMessages } from '../../db/claim-run.ts';

/** Chain hash of a message: of the previous hash and its own canonical content (RFC 8785, SHA-256, hex). */
export function chainOf(previous: string, message: { role: string; content: unknown }): string {
  return sha256(`${previous}\n${canonicalJson({ content: message.content, role: message.role })}`).toString('hex');
}

/** The integrity hash of the state and the chain of all messages before it. */
function checkpointHash(state: StoredState, chain: string): string {
  return digestOf({ state, chain });
}

interface NewCheckpoint {
  tenantId: string;
  runId: string;
  parentId: string | null;
  trigger: 'turn_complete' | 'tool_result' | 'manual';
  state: RunState;
  chain: string;
  id?: string | undefined;
  /** Entry point of the agent's graph, if it has one. */
  entryPoint?: string | undefined;
}

/** A row of `checkpoints`. The cost does not depend on the run's length. */
export function checkpointRow(input: NewCheckpoint) {
  const { state } = input;
  const stored: StoredState = { ...state, log_version: LOG_VERSION };
  return {
    tenant_id: input.tenantId,
    run_id: input.runId,
    seq: state.seq,
    id: input.id ?? newId(),
    parent_id: input.parentId,
    node: state.graph?.node ?? input.entryPoint ?? 'agent',
    trigger: input.trigger,
    lineage: state.lineage,
    length: state.length,
    state: stored,
    channel_versions: {
      messages: state.length,
      current_node: state.steps,
      iteration: state.steps,
      custom: state.customAt ?? 0,
    },
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

/** The position of messages that were read: how many precede them, and the chain hash of the last of those. */
type After = Pick<UnreadMessages, 'messages' | 'chain'>;

const FROM_THE_START: After = { messages: 0, chain: '' };

/**
 * Verifies messages by their chain hashes; returns the first ordinal that does not fit, or null. If they do not start with the
 * conversation's first, a later checkpoint's hash vouches for their predecessors.
 */
export async function firstBrokenMessage(
  messages: readonly MessageRow[],
  after: After = FROM_THE_START,
): Promise<number | null> {
  let { chain, messages: ordinal } = after;
  let broken: number | null = null;
  await inSlices(messages, (message) => {
    chain = chainOf(chain, message);
    if (message.ordinal !== ordinal || message.chain !== chain) broken = message.ordinal;
    ordinal += 1;
    return broken === null;
  });
  return broken;
}

/** A checkpoint's state as this build reads it; null if its hash does not match. */
export function verifiedState(
  checkpoint: Pick<CheckpointRow, 'length' | 'state' | 'hash'>,
  messages: readonly MessageRow[],
  after: After = FROM_THE_START,
): RunState | null {
  const last = checkpoint.length - after.messages;
  const chain = last === 0 ? after.chain : messages[last - 1]?.chain;
  if (chain === undefined || checkpointHash(checkpoint.state, chain) !== checkpoint.hash) return null;
  const { log_version: _, ...state } = checkpoint.state;
  return upcastState(state);
}

/**
 * Whether a newer build saved it, with a state that may contain things unknown to this one. The run is then read from its
 * events, as far as this build knows them.
 */
export function isOfNewerBuild({ state }: Pick<CheckpointRow, 'state'>): boolean {
  return (state.log_version ?? 0) > LOG_VERSION;
}
