/**
 * Answers a fork's calls from the record of its original run. A fork does not silently repeat that run's effects, and a
 * recorded replay asks no model if the record has its answer (docs/replay.md).
 */
import { corrected, type Calibration } from '../../../core/calibration.ts';
import { SUMMARY_TOOL, type Compaction } from '../../../core/compaction.ts';
import type { RunLimits } from '../../../core/decide.ts';
import type { AgentDefinition } from '../../../core/definition.ts';
import { canonicalJson } from '../../../core/canonical-json.ts';
import { isInDoubt, MADE_THOUGH_FAILED } from '../../../core/ledger.ts';
import { LIMITS } from '../../../core/limits.ts';
import { renderMemories, type GivenMemory } from '../../../core/memory/prompt.ts';
import { REQUEST_PARTS, type ModelRequest, type ModelResponse, type RequestPart } from '../../../core/model.ts';
import type { ReplayState } from '../../../core/replay-state.ts';
import type { RunState } from '../../../core/state.ts';
import { effectOf, isWait, type ToolDefinition } from '../../../core/tool.ts';
import { readMessages } from '../../../db/messages.ts';
import type { Tx } from '../../../db/database.ts';
import {
  findCarried,
  listRecordedAnswers,
  listCompactions,
  listOwnAsks,
  listRecordedCalls,
  listRecordedNodes,
  listReflections,
  type RecordedAnswerRow,
  type RecordedCallRow,
  type RecordedCompaction,
  type RecordedNode,
  type RecordedReflection,
} from '../../../db/replay.ts';
import { findRunRow } from '../../../db/runs.ts';
import { listCorrections } from '../../../db/token-corrections.ts';
import type { MessageRow, RunRow } from '../../../db/claim-run.ts';
import type { Context } from '../../governance/context.ts';
import { withoutRefused } from '../../run-log/refused-files.ts';
import { buildRequest, windowOf } from './build-request.ts';
import { offeredTools, promptOf, type NodePosition } from './open-node.ts';

/** What is left of a fork's record. */
export interface ReplaySource {
  calls: RecordedCall[];
  /** The model's answer in the step that is redone. */
  redo: RecordedAnswerRow | undefined;
  /** For recorded replays that have not diverged. */
  original: OriginalRun | undefined;
}

export interface RecordedCall extends RecordedCallRow {
  /** Canonical arguments: `key` as made, `askedKey` as the model asked. */
  key: string;
  askedKey: string;
  /** Settled before the fork's point: part of its starting state. */
  isPast: boolean;
}

interface OriginalRun {
  run: RunRow;
  answers: RecordedAnswerRow[];
  compactions: RecordedCompaction[];
  corrections: { step: number; calibration: Calibration }[];
  /** Steps in which it asked for a summary. */
  summaryAsks: number[];
  reflections: RecordedReflection[];
  nodes: RecordedNode[];
  /** The compaction that the run began with. */
  context: Compaction | undefined;
  containerId: string | undefined;
  messages: MessageRow[];
  definition: AgentDefinition;
  tools: ReadonlyMap<string, ToolDefinition>;
  /** A model's window in tokens, as this process knows it. */
  windowOf: (name: string) => number;
}

/** Reads a fork's record; null for other runs. */
export async function loadReplaySource(context: Context, run: RunRow, state: RunState): Promise<ReplaySource | null> {
  const { replay } = state;
  if (!replay || run.forked_at_seq === null) return null;
  const point = { runId: replay.fromRunId, seq: run.forked_at_seq };
  const past = replay.redo?.settled ?? [];
  const { calls, redo, original } = await context.db.withTenant(run.tenant_id, async (tx) => {
    const { redo: again } = replay;
    return {
      calls: await listRecordedCalls(tx, point, { usedBy: run.id, redo: again }),
      redo: again ? (await listRecordedAnswers(tx, again.runId, { from: again.step, to: again.step }))[0] : undefined,
      original: replay.mode === 'recorded' && !replay.diverged ? await readOriginal(tx, replay) : undefined,
    };
  });
  return {
    calls: calls.map((call) => ({
      ...call,
      key: canonicalJson(call.arguments),
      askedKey: canonicalJson(call.asked ?? call.arguments),
      isPast: past.includes(call.id),
    })),
    redo,
    original: original && {
      ...original,
      ...(await context.definitions.load(pinsOf(original.run))),
      windowOf: (name) => context.models.contextWindow(name)?.tokens ?? LIMITS.contextTokens,
    },
  };
}

async function readOriginal(tx: Tx, replay: ReplayState) {
  const run = await findRunRow(tx, replay.fromRunId);
  if (!run) return undefined;
  const answers = await listRecordedAnswers(tx, run.id, { from: replay.steps + 1 });
  const messages = await readMessages(tx, run.id, { length: answers.at(-1)?.responded.ordinal ?? 0 });
  const { compactions, context } = await listCompactions(tx, run.id);
  const corrections = await listCorrections(tx, run.id);
  const summaryAsks = await listOwnAsks(tx, run.id, SUMMARY_TOOL);
  const reflections = await listReflections(tx, run.id);
  const nodes = await listRecordedNodes(tx, run.id);
  const { containerId } = await findCarried(tx, run.id, { beforeStep: replay.steps + 1 });
  return { run, answers, messages, compactions, corrections, summaryAsks, reflections, nodes, context, containerId };
}

function pinsOf(run: RunRow) {
  return { tenantId: run.tenant_id, agentId: run.agent_id, agentVersion: run.agent_version, tools: run.pinned.tools };
}

/**
 * The record's reply to a model call: its response, with what it has learned of its estimates meanwhile, or how the request
 * differs.
 */
type RecordedAnswer =
  | { kind: 'same'; response: ModelResponse; calibration?: Calibration | undefined }
  | { kind: 'differs'; differs: RequestPart[] };

/** A request, and the provider to receive it. */
export interface AskedModel {
  provider: string;
  request: ModelRequest;
}

/** Memories given to the record's turn before a step; undefined if the record is not to be used. */
export function recordedMemories(
  source: { log: { state: RunState }; replaySource: ReplaySource | null },
  step: number,
): GivenMemory[] | undefined {
  const row = recordedRow(source, step);
  return row && (row.memory?.entries ?? []);
}

/** Indexes of worked examples shown by the record's model call of a step; undefined if the record is not to be used. */
export function recordedExamples(
  source: { log: { state: RunState }; replaySource: ReplaySource | null },
  step: number,
): { places: number[] | undefined } | undefined {
  const row = recordedRow(source, step);
  return row?.asked ? { places: row.asked.examples } : undefined;
}

function recordedRow(
  { log, replaySource }: { log: { state: RunState }; replaySource: ReplaySource | null },
  step: number,
): RecordedAnswerRow | undefined {
  const { replay } = log.state;
  if (!replay || replay.mode !== 'recorded' || replay.diverged) return undefined;
  return replaySource?.original?.answers.find((each) => each.step - replay.steps === step - replay.iteration);
}

/** The record's reply to the model call of a step; undefined if the record is not to be used. */
export function recordedAnswer(
  source: { state: RunState; replaySource: ReplaySource | null },
  step: number,
  asked: () => AskedModel,
): RecordedAnswer | undefined {
  const { replaySource: record } = source;
  const { replay } = source.state;
  if (!record || !replay) return undefined;
  if (replay.redo) return record.redo && answer(record.redo);
  if (replay.mode !== 'recorded' || replay.diverged) return undefined;
  const { original } = record;
  const row = original?.answers.find((each) => each.step - replay.steps === step - replay.iteration);
  if (!original || !row?.asked) return { kind: 'differs', differs: ['end_of_record'] };
  const differs = differences(originalRequest(original, { ...row, asked: row.asked }, source.state), asked());
  if (differs.length > 0) return { kind: 'differs', differs };
  const corrections = original.corrections.filter(({ step: of }) => of === row.step);
  const calibration = corrections.reduce<Calibration | undefined>(
    (sum, each) => corrected(sum, each.calibration),
    undefined,
  );
  return { ...answer(row), calibration };
}

function answer({ responded, content }: RecordedAnswerRow): Extract<RecordedAnswer, { kind: 'same' }> {
  const { container_id: containerId } = responded;
  const response: ModelResponse = {
    ...(containerId !== undefined && { containerId }),
    provider: responded.provider,
    model: responded.model,
    content: content ?? [],
    stopReason: responded.stop_reason,
    usage: responded.usage,
  };
  return { kind: 'same', response };
}

/** The record's compaction before the model call of a step; undefined if there is none to be used. */
export function recordedCompaction(
  { state: { replay }, replaySource: record }: { state: RunState; replaySource: ReplaySource | null },
  step: number,
): RecordedCompaction['payload'] | undefined {
  if (replay?.mode !== 'recorded' || replay.diverged) return undefined;
  const found = record?.original?.compactions.find((each) => each.step - replay.steps === step - replay.iteration);
  return found?.payload;
}

/** Whether the record asked for a summary before the model call of a step, and was answered in that step without one. */
export function hadNoSummary(
  { state: { replay }, replaySource: record }: { state: RunState; replaySource: ReplaySource | null },
  step: number,
): boolean {
  if (replay?.mode !== 'recorded' || replay.diverged || !record?.original) return false;
  const { answers, summaryAsks } = record.original;
  const of = step - replay.iteration + replay.steps;
  return summaryAsks.includes(of) && answers.some((each) => each.step === of);
}

/** The record's reflection on the answer of a step; undefined if there is none to be used. */
export function recordedReflection(
  { state: { replay }, replaySource: record }: { state: RunState; replaySource: ReplaySource | null },
  step: number,
): RecordedReflection['payload'] | undefined {
  if (replay?.mode !== 'recorded' || replay.diverged) return undefined;
  const found = record?.original?.reflections.find((each) => each.step - replay.steps === step - replay.iteration);
  return found?.payload;
}

function originalRequest(
  original: OriginalRun,
  row: RecordedAnswerRow & { asked: NonNullable<RecordedAnswerRow['asked']> },
  { calibration, steered, refusedFiles }: RunState,
): AskedModel {
  const { definition, run } = original;
  const inNode = { definition, tools: original.tools, log: { state: { graph: nodeAt(original, row) } } };
  const { provider, model, tool_choice: toolChoice } = row.asked;
  const source = {
    definition,
    tools: offeredTools(inNode),
    prompt: promptOf(inNode),
    messages: withoutRefused(original.messages.slice(0, row.responded.ordinal), refusedFiles),
    limits: run.pinned.limits,
    examples: row.asked.examples,
    compaction: original.compactions.findLast(({ step }) => step <= row.step)?.payload ?? original.context,
    containerId: containerBefore(original, row),
    // This run's: while it takes its answers from the record, they equal the record's.
    calibration,
    steered,
    memory: row.memory && { ordinal: row.memory.ordinal, text: renderMemories(row.memory.entries) },
  };
  const contextWindow = original.windowOf(`${provider}/${model}`);
  const window = windowOf(source.limits, { provider, model, contextWindow });
  return { provider, request: buildRequest(source, { provider, model, toolChoice, window }) };
}

/** The record's position in its agent's graph at that request. */
function nodeAt({ nodes }: OriginalRun, { seq }: RecordedAnswerRow): NodePosition | null {
  const { node, prompt } = nodes.findLast((each) => each.seq < seq) ?? {};
  return node == null ? null : { node, open: true, ...(prompt != null && { prompt }) };
}

/** The container in a recorded model call: of the last answer before it that named one, otherwise the run's initial one. */
function containerBefore({ answers, containerId }: OriginalRun, { step }: RecordedAnswerRow): string | undefined {
  const named = answers.findLast((each) => each.step < step && each.responded.container_id !== undefined);
  return named?.responded.container_id ?? containerId;
}

function differences(left: AskedModel, right: AskedModel): RequestPart[] {
  const [was, is] = [partsOf(left), partsOf(right)];
  return REQUEST_PARTS.filter((part) => canonicalJson(was[part]) !== canonicalJson(is[part]));
}

function partsOf({ provider, request }: AskedModel): Record<RequestPart, unknown> {
  const { model, system, tools, messages, toolChoice, maxTokens, temperature, options } = request;
  return {
    model: [provider, model],
    system,
    tools,
    messages,
    settings: { toolChoice, maxTokens, ...(temperature !== undefined && { temperature }), ...(options && { options }) },
    end_of_record: null,
  };
}

/**
 * Finds the recorded call to reuse: the first one with the same tool and arguments; otherwise one for which the model asked
 * for the same arguments, whatever a person or policy made of them. Removes it from the record. A live replay repeats calls
 * that only read, and those that surely had no effect.
 */
export function takeRecordedCall(
  source: { state: RunState; replaySource: ReplaySource | null },
  wanted: { tool: ToolDefinition; arguments: Record<string, unknown>; asked: Record<string, unknown>; step: number },
): RecordedCall | undefined {
  const { replaySource: record } = source;
  const { replay } = source.state;
  if (!record || !replay || record.calls.length === 0) return undefined;
  const [key, askedKey] = [canonicalJson(wanted.arguments), canonicalJson(wanted.asked)];
  const find = (isSame: (call: RecordedCall) => boolean) =>
    record.calls.findIndex(
      (call) =>
        call.tool_id === wanted.tool.id &&
        isSame(call) &&
        (call.isPast ? wanted.step === replay.iteration + 1 : mayAnswer(replay, call)),
    );
  const exact = find((call) => call.key === key);
  const index = exact < 0 ? find((call) => call.askedKey === askedKey) : exact;
  return index < 0 ? undefined : record.calls.splice(index, 1)[0];
}

function mayAnswer(replay: ReplayState, call: RecordedCallRow): boolean {
  if (hadEffect(call)) return !replay.rerunEffects;
  const wasMade = call.status === 'succeeded' || call.status === 'failed' || call.status === 'unknown';
  return (
    replay.mode === 'recorded' && !replay.diverged && wasMade && !(replay.rerunEffects && call.effect !== 'read_only')
  );
}

/** Whether a call had, may have had, or may still get (from the run that requested it) an effect outside. */
export function hadEffect(call: Pick<RecordedCallRow, 'effect' | 'status' | 'error'>): boolean {
  const { effect, status, error } = call;
  if (effect === 'read_only') return false;
  if (isInDoubt(call)) return true;
  if (status === 'failed') return MADE_THOUGH_FAILED.includes(error?.code ?? '');
  return status !== 'denied' && status !== 'awaiting_approval';
}

/**
 * Whether a retry repeats a call that has an unknown outcome or failed without an answer, without asking a person: if its tool
 * or agent allows that, under the recorded idempotency key and with the same arguments. Calls answered from outside are not
 * sent under a key.
 */
export function isMadeAgain(
  recorded: RecordedCall,
  retry: { run: Pick<RunRow, 'retried_from'>; limits: RunLimits; tool: ToolDefinition; key: string },
): boolean {
  const { run, limits, tool, key } = retry;
  if (run.retried_from === null || recorded.isPast || key !== recorded.key || isWait(tool)) return false;
  const { status, error } = recorded;
  if (status === 'succeeded' || (status === 'failed' && error?.perhaps_in === undefined)) return false;
  return effectOf(tool) !== 'unknown' || limits.onUnknown === 'retry';
}
