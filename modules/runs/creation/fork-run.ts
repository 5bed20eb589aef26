/** Starts a run from a point of another one: its own lineage of messages on top of the other's, its own log, one job. */
import { canonicalJson } from '../../../core/canonical-json.ts';
import { newId } from '../../../lib/new-id.ts';
import { filesIn, type Message } from '../../../core/content.ts';
import type { AgentDefinition } from '../../../core/definition.ts';
import { takeQueued } from '../../../core/decision-events/turns.ts';
import { checkEvent, type NewEvent, type RunStatus } from '../../../core/events.ts';
import { forkPoint, segmentsOf, withMessages, withTrustOfFiles, type ForkPoint } from '../../../core/fork.ts';
import { goTo, toFillAgain, type GraphState } from '../../../core/graph/position.ts';
import { toQueued } from '../../../core/message-queue.ts';
import { originOf } from '../../../core/origin.ts';
import { keptConfig, type RequestedConfig } from '../../../core/run-config.ts';
import type { Tx } from '../../../db/database.ts';
import { noteUses } from '../../../db/files.ts';
import { findTurnAfter, listRecordedCalls } from '../../../db/replay.ts';
import type { RefusedFiles } from '../../../core/refused-files.ts';
import type { RunRow } from '../../../db/claim-run.ts';
import type { SessionOfThread } from '../../../db/sessions.ts';
import { listSteering } from '../../../db/steering.ts';
import { commitRunIn, type OutboxRow, type RunChange } from '../../../db/commit-run.ts';
import { TURNS } from '../../../jobs/turns.ts';
import { chainOf } from '../../run-log/checkpoint.ts';
import { messagesFor } from '../../run-log/conversation.ts';
import { hadEffect } from '../driver/replay-source.ts';
import type { Announcement } from '../../run-log/append-to-run.ts';
import { toRunChange } from '../../run-log/run-change.ts';
import type { Context } from '../../governance/context.ts';
import { agentForRun, checkAutonomy, limitsOf, atLevelOf } from './agent-for-run.ts';
import { pinGuards, pinTools } from '../../tools-registry/pin-tools.ts';
import { takeAlong, type WaitingMessage } from '../message-queue.ts';
import { trustOfGiven } from './given-messages.ts';
import { carriedFields, runCreated } from './run-created.ts';
import type { StartPoint } from './start-point.ts';
import { withinSession } from './within-session.ts';

/** Channels of a state, each replaced as a whole. */
export interface ModifiedState {
  messages?: Message[] | undefined;
  custom?: Record<string, unknown> | undefined;
  iteration?: number | undefined;
  /** The graph node to continue with. */
  current_node?: string | undefined;
}

interface Fork {
  models: Context['models'];
  original: RunRow;
  from: StartPoint;
  mode: 'live' | 'recorded';
  rerunEffects: boolean;
  modified: ModifiedState;
  /** Overrides the original's settings. */
  config: RequestedConfig;
  mayRaiseAutonomy: boolean;
  /** A retry stays on the thread, with this number; a replay gets its own thread. */
  retryAtPlace?: number;
  /** The session on whose thread a retry is. */
  session?: SessionOfThread | undefined;
  /** The message waiting in the thread's previous run. */
  waiting?: WaitingMessage | undefined;
  /** The requesting key. */
  requestedBy?: string | undefined;
  traceparent: string | undefined;
}

/** A call of the original after the point that had, or may have had, an effect. `seq`: of its last event. */
export interface RecordedEffect {
  tool_call_id: string;
  tool: string;
  seq: number;
}

export interface ForkedRun {
  runId: string;
  threadId: string;
  turnId: string | undefined;
  status: 'running' | 'awaiting_human';
  effects: RecordedEffect[];
  written: Announcement;
}

/**
 * Writes the fork. It continues the turn open at the point, or takes the original's next turn; without either, the waiting
 * message begins a turn, or the fork waits for one. Throws as `agentForRun` and `checkAutonomy` do.
 */
export async function forkRun(tx: Tx, fork: Fork): Promise<ForkedRun> {
  const { original, from } = fork;
  const asked = await pointOf(tx, fork);
  const runId = newId();
  const isRetry = fork.retryAtPlace !== undefined;
  const threadId = isRetry ? original.thread_id : newId();
  const turnId = asked.turn || fork.waiting ? newId() : undefined;
  const conversation = await conversationOf(tx, fork, asked);
  const point = withTrustOfFiles(asked, conversation.untrustedFiles);
  // They have come into the fork, whatever becomes of the original.
  const { fileIds } = conversation;
  if (fileIds.length > 0) await noteUses(tx, { tenantId: original.tenant_id, runId, fileIds });
  const created = await createdEvent(tx, fork, { threadId, point, conversation });
  const events = [created, forkedEvent(fork, point, conversation), ...firstEvents(point, turnId, fork.requestedBy)];
  events.push(...(await steeringEvents(tx, fork, { point, turnId, conversation })));
  events.push(...waitingEvents(fork, point, turnId));
  const owner = { tenant_id: original.tenant_id, workspace_id: original.workspace_id };
  const { traceparent } = fork;
  const payload = { tenantId: original.tenant_id, runId, ...(traceparent && { traceparent }) };
  const outbox: OutboxRow[] = turnId ? [{ id: newId(), queue: TURNS.name, at_position: true, payload }] : [];
  const thread = { ...owner, id: threadId, agent_id: original.agent_id, created_at: 'now' };
  const change: RunChange = {
    ...toRunChange({ ...owner, id: runId, last_seq: 0 }, events.map(checkEvent)),
    ...(!isRetry && { thread }),
    ...(conversation.added.length > 0 && { messages: conversation.added }),
    outbox,
  };
  const effects = await effectsAfter(tx, original.id, { seq: from.seq, redo: point.redo });
  const result = await commitRunIn(tx, change);
  if (!result.ok) throw new Error(`run ${runId} could not be created: ${result.why}`);
  const written = { runId, seq: result.seq, fence: result.fence, outbox };
  return { runId, threadId, turnId, status: turnId ? 'running' : 'awaiting_human', effects, written };
}

/** The point, with the fork's turn. */
async function pointOf(tx: Tx, fork: Fork): Promise<ForkPoint> {
  const { original, from, modified } = fork;
  const point = modified.messages ? withMessages(from.state, modified.messages) : forkPoint(original.id, from.state);
  if (point.turn) return point;
  const turn = await findTurnAfter(tx, { runId: original.id, seq: from.seq }, 'next');
  return { ...point, turn: turn ? { ...turn, begun: false, steps: 0, toolCalls: 0 } : null };
}

interface Conversation {
  /** Number of the original's messages that the fork shares. */
  shared: number;
  /** The fork's own first messages. */
  added: NonNullable<RunChange['messages']>;
  /** It ends with untrusted messages of a client's choice that no model has answered to. */
  isTainted: boolean;
  /** The files in its own messages. */
  fileIds: string[];
  /** Ids of files in messages of a client's choice for which nobody vouches. */
  untrustedFiles?: ReadonlySet<string> | undefined;
}

/**
 * Stores given messages from the first one that differs; those before it are shared with the original. Also stores the point's
 * own messages from the first one whose results have changed since: the fork keeps them as they were.
 */
async function conversationOf(tx: Tx, { original, from, modified }: Fork, point: ForkPoint): Promise<Conversation> {
  if (!modified.messages && point.length <= from.unchanged)
    return { shared: point.length, added: [], isTainted: false, fileIds: [] };
  const { messages: known } = messagesFor(from.messages, Number.POSITIVE_INFINITY);
  const given = modified.messages ?? known.slice(0, point.length);
  const differs = given.findIndex((message, index) => canonicalJson(message) !== canonicalJson(known[index] ?? null));
  const shared = Math.min(differs < 0 ? given.length : differs, from.unchanged);
  const trust = await trustOfGiven(tx, original, given);
  let chain = from.messages[shared - 1]?.chain ?? '';
  const added = given.slice(shared).map(({ role, content }, index) => {
    const ordinal = shared + index;
    chain = chainOf(chain, { role, content });
    const origin = modified.messages ? undefined : from.messages[ordinal]?.origin;
    const said = { ordinal, role, content, chain, origin: originOf({ role, content, origin }) };
    return trust.isUntrusted[ordinal] ? { ...said, trust: 'untrusted' as const } : said;
  });
  const files = given.slice(shared).flatMap(filesIn);
  const fileIds = files.map((file) => file.file_id);
  if (!modified.messages) return { shared, added, isTainted: false, fileIds };
  return { shared, added, isTainted: trust.isTainted, fileIds, untrustedFiles: trust.untrustedFiles };
}

type Created = Extract<NewEvent, { type: 'run.created' }>;

/** Ordinals of messages that came during a turn; unknown for messages given by a client. */
function steeredIn({ from, modified }: Fork, shared: number): number[] | undefined {
  return modified.messages ? from.state.steered?.filter((ordinal) => ordinal < shared) : from.state.steered;
}

/** What a client gives in place of messages is sent as it is. */
function refusedIn({ from, modified }: Fork, shared: number): RefusedFiles[] | undefined {
  const { refusedFiles } = from.state;
  if (!modified.messages) return refusedFiles;
  return refusedFiles?.flatMap(({ from: start, until }) => {
    return start < shared ? [{ from: start, until: Math.min(until, shared) }] : [];
  });
}

async function createdEvent(
  tx: Tx,
  fork: Fork,
  parts: { threadId: string; point: ForkPoint; conversation: Conversation },
): Promise<Created> {
  const { original, from } = fork;
  const { shared, added } = parts.conversation;
  const { agent_version: wanted, keep_open } = fork.config;
  const agent = await agentForRun(tx, {
    agentId: original.agent_id,
    workspaceId: original.workspace_id,
    config: { agent_version: wanted ?? original.agent_version },
  });
  const isRetry = fork.retryAtPlace !== undefined;
  const kept = keptConfig(fork.config, original.config);
  const guarded = isRetry && !fork.mayRaiseAutonomy ? atLevelOf(kept, agent) : kept;
  const config = withinSession(guarded, agent.definition, fork.session);
  checkAutonomy(config.autonomy_level, agent, fork.mayRaiseAutonomy);
  return runCreated({
    agent_id: original.agent_id,
    agent_version: agent.version,
    thread_id: parts.threadId,
    thread_place: fork.retryAtPlace ?? 1,
    lineage: newId(),
    lineage_base: segmentsOf(original, shared),
    base_length: shared + added.length,
    keep_open: parts.point.turn === null || (keep_open ?? original.keep_open),
    config,
    // Another version brings its current tools; the same version keeps those pinned by the original, guarded as they are now.
    pinned: {
      tools: wanted === undefined ? await pinGuards(tx, original.pinned.tools) : await pinTools(tx, agent.definition),
      limits: forkedLimits(fork, agent.definition, config.model_override),
    },
    // A replaced conversation has no summary of its beginning.
    ...(from.state.compaction && !fork.modified.messages && { context: from.state.compaction }),
    // A replaced conversation is not cut yet. Any other is cut as the original's was, though a fork reads and verifies all of it.
    ...carriedFields({
      ...from.state,
      steered: steeredIn(fork, shared),
      refusedFiles: refusedIn(fork, shared),
      ...(fork.modified.messages && { cut: undefined }),
    }),
    // A repetition is paid from the same budget, unless the fork brings its own.
    root_run_id: fork.config.budget ? null : original.root_run_id,
    forked_from_run_id: original.id,
    forked_at_seq: from.seq,
    retried_from: isRetry ? original.id : null,
    ...(isRetry && original.metadata && { metadata: original.metadata }),
    traceparent: fork.traceparent,
  });
}

/** The original's limits, unless the fork has another version or model. */
function forkedLimits({ original, config, models }: Fork, definition: AgentDefinition, override: string | undefined) {
  const limits = limitsOf({ models }, definition, override);
  const { limits: known } = original.pinned;
  return config.agent_version === undefined && known?.model === limits?.model ? known : limits;
}

function forkedEvent({ original, from, ...fork }: Fork, point: ForkPoint, { isTainted }: Conversation): NewEvent {
  const custom = fork.modified.custom ?? from.state.custom;
  const isChanged = canonicalJson(custom) !== canonicalJson(from.state.custom);
  const at = graphAt(point, fork.modified.current_node);
  const graph = at && isChanged ? toFillAgain(at) : at;
  const given = Object.entries(fork.modified).filter(([, value]) => value !== undefined);
  return {
    type: 'run.forked',
    actor: 'user',
    payload: {
      from_run_id: original.id,
      at_seq: from.seq,
      checkpoint_id: from.checkpointId,
      mode: fork.mode,
      rerun_effects: fork.rerunEffects,
      steps: point.steps,
      iteration: fork.modified.iteration ?? point.steps,
      turn_count: point.turnCount,
      redo: point.redo,
      modified: given.map(([channel]) => channel),
      custom,
      // Drops signals for specific calls: the fork has no such calls.
      signals: from.state.signals.flatMap((signal) => (signal.callId === null ? [{ ...signal, callId: null }] : [])),
      ...(graph && { graph }),
      ...((isTainted || from.state.untrustedUnread?.length) && { untrusted: true }),
    },
  };
}

/** The position in the graph; with `node`, on the way to that node. */
function graphAt({ graph }: ForkPoint, node: string | undefined): GraphState | undefined {
  if (!graph || node === undefined) return graph ?? undefined;
  const { open, node: last, from } = graph;
  return goTo(graph, { node, from: open || !graph.outcomes[last] ? from : [last] }, false);
}

/** Begins the fork's turn; without one, leads to the state of waiting for one. */
function firstEvents(
  { turn, turnCount }: ForkPoint,
  turnId: string | undefined,
  requestedBy: string | undefined,
): NewEvent[] {
  if (!turn)
    return [
      { type: 'run.started', actor: 'system', payload: {} },
      ...become(['initializing', 'planning', 'awaiting_human']),
    ];
  const { input, begun, steps, toolCalls, untrusted } = turn;
  const tainted = untrusted && { untrusted };
  const continues = begun ? { continues: { steps, tool_calls: toolCalls, ...tainted } } : {};
  const payload = { number: turnCount + 1, input, requested_by: requestedBy, ...continues };
  return [{ type: 'turn.started', actor: 'user', turn_id: turnId, payload }];
}

/** Messages that the turn read on its way after the point: it reads them again, unless a client has replaced their conversation. */
async function steeringEvents(
  tx: Tx,
  { original, modified }: Fork,
  { point, turnId, conversation }: { point: ForkPoint; turnId: string | undefined; conversation: Conversation },
): Promise<NewEvent[]> {
  const { turn, length } = point;
  if (!turn || (turn.begun && modified.messages)) return [];
  const read = await listSteering(tx, { runId: original.id, turnId: turn.id, length });
  const shift = conversation.shared + conversation.added.length - length;
  return read.map(({ message, read_at }) => {
    const payload = { ...message, mode: 'steer' as const, read_at: read_at + shift };
    return { type: 'message.queued', actor: 'user', turn_id: turnId, payload };
  });
}

/** The waiting message: it begins the turn if there is no other. */
function waitingEvents(
  { waiting, original }: Fork,
  { turn, turnCount }: ForkPoint,
  turnId: string | undefined,
): NewEvent[] {
  const isNext = waiting && !turn && turnId !== undefined;
  return [
    ...takeAlong(waiting, { turnId: turn ? turnId : undefined, keepOpen: original.keep_open }),
    ...(isNext ? takeQueued({ queued: toQueued(waiting), turnCount }, turnId) : []),
  ];
}

function become(way: RunStatus[]): NewEvent[] {
  return way.map((to, index) => {
    const from = way[index - 1] ?? 'created';
    return { type: 'run.status_changed', actor: 'system', payload: { from, to } };
  });
}

/** The calls with which a run had, or may have had, effects outside, from its first step on. */
export async function effectsOf(tx: Tx, runId: string): Promise<RecordedEffect[]> {
  return effectsAfter(tx, runId, { seq: 0, redo: null });
}

async function effectsAfter(
  tx: Tx,
  runId: string,
  point: { seq: number; redo: ForkPoint['redo'] },
): Promise<RecordedEffect[]> {
  const { redo } = point;
  const calls = await listRecordedCalls(
    tx,
    { runId, seq: point.seq },
    { redo: redo && { runId: redo.run_id, step: redo.step } },
  );
  return calls
    .filter((call) => hadEffect(call) && !redo?.settled.includes(call.id))
    .map(({ id, name, seq }) => ({ tool_call_id: id, tool: name, seq }));
}
