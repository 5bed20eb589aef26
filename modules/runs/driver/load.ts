/** Makes the drive of a run from its rows, and reloads it when others have written. */
import { readEvent, UnknownEventError } from '../../../core/events.ts';
import { modelsNamed } from '../../../core/graph/tools.ts';
import { LIMITS } from '../../../core/limits.ts';
import { fold, type RunState } from '../../../core/state.ts';
import {
  ALL_READ,
  readRemainingPages,
  loadRun,
  type ClaimedRun,
  type ClaimResult,
  type ReadRequest,
  type RunRow,
  type UnreadMessages,
} from '../../../db/claim-run.ts';
import { outputBytesOf } from '../../../db/commit-run.ts';
import { inSlices } from '../../../lib/in-slices.ts';
import type { InitialCommit } from '../../../jobs/slot-reservation.ts';
import { firstBrokenMessage, isOfNewerBuild, verifiedState } from '../../run-log/checkpoint.ts';
import { parseModelName } from '../../../llm/model-name.ts';
import type { Context } from '../../governance/context.ts';
import { CorruptCheckpointError, LostRunError } from '../../run-log/errors.ts';
import { carryOn, positionOf, type CachedRun } from '../../run-log/run-cache.ts';
import { appendEvent, openLog, rebase, toCachedRun, type Position } from '../../run-log/run-log.ts';
import { fallbackModelsOf, primaryModelOf } from '../../agents/effective-limits.ts';
import { renderInSlices } from '../../run-log/conversation.ts';
import { roomFor } from './build-request.ts';
import { readMemory } from './load-memory.ts';
import { graphPlanOf } from './open-node.ts';
import { loadReplaySource } from './replay-source.ts';
import { newStep, newUncommitted, type DriveBasis, type Drive } from './drive-state.ts';

interface CorruptCheckpoint {
  id: string;
  seq: number;
}

type ReadRun = (run: ReadRequest) => Promise<ClaimResult>;

/**
 * Restores the state of a loaded run from the newest checkpoint that fits its hash, and the events after it. `loaded`: the
 * rows used. Throws CorruptCheckpointError if nothing fits, UnknownEventError for the log of a newer build.
 */
export async function restore(
  read: ReadRun,
  loaded: ClaimedRun,
): Promise<{ state: RunState; loaded: ClaimedRun; corrupt: CorruptCheckpoint[] }> {
  const corrupt: CorruptCheckpoint[] = [];
  let at = loaded;
  for (;;) {
    const broken = await firstBrokenMessage(at.messages, at.before);
    if (broken !== null) throw new CorruptCheckpointError(`message ${broken} does not fit its hash`);
    const isNewer = at.checkpoint !== null && isOfNewerBuild(at.checkpoint);
    const start = at.checkpoint && !isNewer ? verifiedState(at.checkpoint, at.messages, at.before) : null;
    if (!at.checkpoint || start) return { state: await foldLog(start, at), loaded: at, corrupt };
    if (!isNewer) corrupt.push({ id: at.checkpoint.id, seq: at.checkpoint.seq });
    const { tenant_id: tenantId, id: runId } = loaded.run;
    // Without a checkpoint to vouch for them, all messages are verified.
    const earlier = await read({ tenant_id: tenantId, run_id: runId, beforeCheckpoint: at.checkpoint.seq });
    if (!earlier.ok) throw new LostRunError(earlier.why);
    at = earlier;
  }
}

async function foldLog(
  start: RunState | null,
  { events, messages, before = ALL_READ, run }: ClaimedRun,
): Promise<RunState> {
  let state = start;
  await inSlices(events, (row) => {
    try {
      state = fold(state, readEvent(row));
    } catch (error) {
      if (error instanceof UnknownEventError) throw error;
      throw new CorruptCheckpointError(`event ${row.seq} cannot be read`, error);
    }
  });
  if (state?.seq !== run.last_seq) {
    throw new CorruptCheckpointError(`its log ends at ${state?.seq ?? 0} instead of ${run.last_seq}`);
  }
  const length = before.messages + messages.length;
  if (state.length !== length) {
    throw new CorruptCheckpointError(`it has ${length} messages instead of ${state.length}`);
  }
  return state;
}

interface OpenOptions {
  signal: AbortSignal;
  stop: AbortSignal;
  traceparent: string | undefined;
  /** The run cache's entry when the run was claimed. */
  cached: CachedRun | undefined;
  heard: DriveBasis['heard'];
  holdsLease: DriveBasis['holdsLease'];
  onProgress: DriveBasis['onProgress'];
  initialCommit: InitialCommit | undefined;
}

/** Opens the drive of a claimed run. */
export async function openDrive(context: Context, claimed: ClaimedRun, options: OpenOptions): Promise<Drive> {
  const { run } = claimed;
  const pins = context.definitions.load({
    tenantId: run.tenant_id,
    agentId: run.agent_id,
    agentVersion: run.agent_version,
    tools: run.pinned.tools,
  });
  const mostTokens = async () => mostConversationTokens(context, run, await pins);
  const [position, pinned, governance] = await Promise.all([
    findPosition(context, claimed, { cached: options.cached, mostTokens }),
    pins,
    context.governance.at(run.tenant_id, claimed.policy_epoch),
  ]);
  const { definition } = pinned;
  const { execution_config: execution = {}, workflow_graph: graph } = definition;
  const maxSteps = run.config.max_turns ?? execution.max_turns ?? LIMITS.maxTurns;
  const drive: Drive = {
    context,
    tenantId: run.tenant_id,
    run,
    fence: run.fence,
    definition,
    tools: pinned.tools,
    limits: {
      maxSteps,
      ...(graph && { graph: graphPlanOf(graph) }),
      onUnknown: execution.on_unknown ?? 'ask',
      reflect: execution.reflect,
      turnTimeoutMs:
        1000 * (execution.timeout_seconds ?? definition.constraints?.timeout_seconds ?? LIMITS.turnTimeoutSeconds),
    },
    traceparent: position.state.turn?.traceparent ?? options.traceparent ?? run.traceparent ?? undefined,
    heard: options.heard,
    holdsLease: options.holdsLease,
    onProgress: options.onProgress,
    log: openLog(position),
    governance,
    isBudgeted: false,
    step: newStep(),
    outputBytes: run.output_bytes,
    uncommitted: newUncommitted(options.initialCommit),
    attached: null,
    replaySource: await loadReplaySource(context, run, position.state),
    memory: await readMemory(context, run, position.state),
    signal: options.signal,
    stop: options.stop,
    sinceMs: performance.now(),
  };
  reportCorrupt(drive, position.corrupt);
  return drive;
}

/** The position of a run, from the run cache if that fits, otherwise from its rows. */
interface FoundPosition extends Position {
  /** Checkpoints that do not fit their hashes, and are not reported yet. */
  corrupt: CorruptCheckpoint[];
}

interface KnownPosition {
  cached: CachedRun | undefined;
  /** Most conversation tokens that any of the run's models is sent. */
  mostTokens: () => Promise<number>;
}

async function findPosition(
  context: Context,
  claimed: ClaimedRun,
  { cached, mostTokens }: KnownPosition,
): Promise<FoundPosition> {
  const loaded = await readRemainingPages(context.db, claimed);
  // Conversations only grow: messages left out for some budget stay left out for any up to it.
  const isEnough = async ({ messages, budgetTokens }: UnreadMessages) =>
    messages === 0 || (await mostTokens()) <= budgetTokens;
  if (cached && loaded.from !== null) {
    const position = await carryOn(cached, loaded);
    if (position && (await isEnough(position.before))) return { ...position, corrupt: [] };
  }
  const isUsed = loaded.from === null && (await isEnough(loaded.before ?? ALL_READ));
  const { tenant_id: tenantId, id: runId } = loaded.run;
  const read = isUsed ? loaded : await loadRun(context.db, { tenant_id: tenantId, run_id: runId });
  if (!read.ok) throw new LostRunError(read.why);
  const { state, loaded: used, corrupt } = await restore((ref) => loadRun(context.db, ref), read);
  const { checkpoint, events, messages, before = ALL_READ } = used;
  await renderInSlices(messages);
  return {
    state,
    at: events.at(-1)?.occurred_at,
    messages,
    before,
    lastCheckpointId: checkpoint?.id ?? null,
    stepsAtCheckpoint: checkpoint?.state.steps ?? 0,
    corrupt: unreported(corrupt, used),
  };
}

function mostConversationTokens(
  { models }: Context,
  { config, pinned: { limits } }: RunRow,
  { definition, tools }: Pick<Drive, 'definition' | 'tools'>,
): number {
  const { workflow_graph: graph } = definition;
  const ofNodes = graph ? modelsNamed(graph).map(([, name]) => name) : [];
  const names = [primaryModelOf(definition, config.model_override), ...ofNodes, ...fallbackModelsOf(definition)];
  // A node may offer a model no tools, which leaves more room.
  const most = graph ? new Map<string, never>() : tools;
  const budgets = names.map((asked) => {
    const found = models.contextWindow(asked);
    if (!found) return 0;
    const window = limits?.model === found.name ? limits.context_window : found.tokens;
    const { provider, model } = parseModelName(found.name);
    return roomFor({ definition, tools: most, limits }, { provider, model, window }).budget;
  });
  return Math.max(...budgets);
}

/** Gates the pending calls again, since the tenant's policy epoch has advanced. */
export async function reauthorizePending(drive: Drive): Promise<void> {
  const { db, governance } = drive.context;
  drive.governance = await db.withTenant(drive.tenantId, (tx) => governance.current(tx, drive.tenantId));
  await drive.uncommitted.reauthorize?.();
}

/** Reads what others have appended, and rebases what is pending onto it: a paid model response is kept. */
export async function reload(drive: Drive): Promise<void> {
  const cached = toCachedRun(drive.log);
  const ref = { tenant_id: drive.tenantId, run_id: drive.run.id };
  const fresh = await loadRun(drive.context.db, {
    ...ref,
    known: cached && positionOf(cached),
    window: true,
  });
  if (!fresh.ok) throw new LostRunError(fresh.why);
  if (fresh.run.fence !== drive.fence) throw new LostRunError('fence');
  const mostTokens = async () => mostConversationTokens(drive.context, drive.run, drive);
  rebase(drive.log, await findPosition(drive.context, fresh, { cached, mostTokens }));
  const { calls, newCalls: new_calls } = drive.log.pending;
  drive.outputBytes = fresh.run.output_bytes + outputBytesOf({ calls, new_calls });
}

function unreported(corrupt: readonly CorruptCheckpoint[], loaded: ClaimedRun): CorruptCheckpoint[] {
  const reported = new Set(
    loaded.events
      .filter(({ type }) => type === 'checkpoint.corrupt')
      .map(readEvent)
      .flatMap((event) => (event.type === 'checkpoint.corrupt' ? [event.payload.checkpoint_id] : [])),
  );
  return corrupt.filter(({ id }) => !reported.has(id));
}

function reportCorrupt(drive: Drive, corrupt: readonly CorruptCheckpoint[]): void {
  for (const checkpoint of corrupt) {
    drive.context.log.error({ run: drive.run.id, checkpoint: checkpoint.id }, 'checkpoint does not fit its hash');
    appendEvent(drive.log, {
      type: 'checkpoint.corrupt',
      actor: 'system',
      payload: { checkpoint_id: checkpoint.id, at_seq: checkpoint.seq, problem: 'its hash does not fit its content' },
    });
  }
}
