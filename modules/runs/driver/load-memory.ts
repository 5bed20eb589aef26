/** The memories of a turn: found before its first model call, kept in the log, and read from there by later drivers. */
import { recordMemories } from '../../../core/decision-events/memory.ts';
import { memorySettings } from '../../../core/definition.ts';
import type { Decision } from '../../../core/decide.ts';
import { readEvent } from '../../../core/events.ts';
import { renderMemories, type GivenMemory } from '../../../core/memory/prompt.ts';
import type { RunState } from '../../../core/state.ts';
import type { StoredBlock, ToolUseBlock } from '../../../core/content.ts';
import type { CallOutcome, MessageRow, RunRow } from '../../../db/claim-run.ts';
import { readEvents } from '../../../db/events.ts';
import { dropForgotten } from '../../memory/forget-memories.ts';
import { giveMemories } from '../../memory/give-memories.ts';
import { startsTurn } from '../../run-log/conversation.ts';
import { appendEvent, type RunLog } from '../../run-log/run-log.ts';
import type { Context } from '../../governance/context.ts';
import { recordedMemories } from './replay-source.ts';
import type { Drive, TurnMemory } from './drive-state.ts';

type CallModel = Extract<Decision, { kind: 'call_model' }>;

/** Gives the turn its memories, once, if its agent has any: the event goes with the commit that announces the model call. */
export async function loadMemory(drive: Drive, { step }: CallModel): Promise<void> {
  const { log, definition, context, tenantId, run } = drive;
  const { turn } = log.state;
  if (!turn || turn.memory || !memorySettings(definition).enabled) return;
  const recorded = recordedMemories(drive, step);
  const entries =
    recorded ??
    (await giveMemories(context, {
      tenantId,
      agentId: run.agent_id,
      workspaceId: run.workspace_id,
      threadId: run.thread_id,
      userId: run.config.session?.user_id,
      definition,
      message: turn.input.message,
      runId: run.id,
      turnId: turn.id,
    }));
  const ordinal = firstMessageOf(log);
  appendEvent(log, recordMemories(log.state, { entries, step, ordinal, recorded: recorded !== undefined }));
  drive.memory = { turnId: turn.id, ordinal, text: renderMemories(entries), ids: idsOf(entries) };
}

/**
 * Removes memories forgotten since the turn was given them or the tool `recall` found them, even if the log did not show them
 * yet to the one who forgot. Checked before each model call, since the process's copy of a run may be old.
 */
export async function leaveOutForgotten(drive: Drive): Promise<void> {
  const { memory, context, tenantId, run, log } = drive;
  const recalled = recalledIn(drive);
  const ids = [...(memory?.ids ?? []), ...[...recalled.values()].flat()];
  if (ids.length === 0) return;
  const of = { agentId: run.agent_id, runId: run.id, ids: [...new Set(ids)] };
  const gone = new Set(await context.db.withTenant(tenantId, (tx) => dropForgotten(tx, of)));
  if (gone.size === 0) return;
  drive.memory = await readMemory(context, run, log.state);
  const isEmptied = (callId: string) => recalled.get(callId)?.some((id) => gone.has(id)) === true;
  // A new row, since the rendering of a row is cached.
  log.messages = log.messages.map((row) => {
    const outcomes = Object.entries(row.outcomes ?? {});
    if (!outcomes.some(([callId]) => isEmptied(callId))) return row;
    const left = outcomes.map(([callId, outcome]) => [callId, isEmptied(callId) ? NOTHING_RECALLED : outcome]);
    return { ...row, outcomes: Object.fromEntries(left) as MessageRow['outcomes'] };
  });
  // The announced request contains what is gone now.
  drive.step.announced = null;
}

/** The same that `forgetInRuns` writes to the ledger. */
const NOTHING_RECALLED: CallOutcome = { status: 'succeeded', output: { entries: [] }, is_error: false };

/** Ids found by the built-in tool `recall`, by call; includes calls that read its output on. */
function recalledIn({ log, tools }: Drive): Map<string, string[]> {
  const recalled = new Map<string, string[]>();
  if (tools.get('recall')?.transport.type !== 'builtin') return recalled;
  /** Ids by tool use of the recall. */
  const found = new Map<string, string[]>();
  /** Tool uses of the answer, with the recall that each belongs to. */
  let asked = new Map<string, string>();
  for (const { role, content, outcomes } of log.messages) {
    if (role === 'assistant') asked = new Map(content.flatMap(recallOf));
    for (const block of asked.size > 0 ? content : []) {
      const of = 'tool_call_id' in block ? asked.get(block.tool_use_id) : undefined;
      if (!('tool_call_id' in block) || of === undefined) continue;
      if (of === block.tool_use_id) found.set(of, idsWithin(outcomes?.[block.tool_call_id]));
      const ids = found.get(of) ?? [];
      if (ids.length > 0) recalled.set(block.tool_call_id, ids);
    }
  }
  return recalled;
}

const isToolUse = (block: StoredBlock): block is ToolUseBlock => block.type === 'tool_use';

function recallOf(block: StoredBlock): [string, string][] {
  if (!isToolUse(block)) return [];
  const { id, name, input } = block;
  if (name === 'recall') return [[id, id]];
  const read = name === 'read_tool_output' ? input['tool_use_id'] : undefined;
  return typeof read === 'string' ? [[id, read]] : [];
}

/** Ids in an outcome. The output may be cut for the model; quotes within a text are escaped there. */
function idsWithin(outcome: CallOutcome | undefined): string[] {
  const { output, content = [] } = outcome ?? {};
  const texts = [JSON.stringify(output ?? null), ...content.map((part) => (part.type === 'text' ? part.text : ''))];
  return texts.flatMap((text) => [...text.matchAll(/"id":\s*"([0-9a-f-]{36})"/g)].map(([, id = '']) => id));
}

/** Ordinal of the turn's first message; in a fork in the middle of a turn, of the last one that begins a turn. */
function firstMessageOf({ messages, state }: RunLog): number {
  const begins = (message: MessageRow) => startsTurn(message, state.steered ?? []);
  const first = messages.find((message) => message.ordinal === state.turn?.from && begins(message));
  return (first ?? messages.findLast(begins))?.ordinal ?? 0;
}

/** Reads the memories of a turn that has begun from its log. */
export async function readMemory(
  { db }: Pick<Context, 'db'>,
  run: Pick<RunRow, 'id' | 'tenant_id'>,
  { turn }: RunState,
): Promise<TurnMemory | undefined> {
  if (!turn?.memory) return undefined;
  const { seq } = turn.memory;
  const [row] = await db.withTenant(run.tenant_id, (tx) => readEvents(tx, { runId: run.id, after: seq - 1, limit: 1 }));
  const event = row && readEvent(row);
  const { entries, ordinal } = event?.type === 'memory.retrieved' ? event.payload : { entries: [], ordinal: 0 };
  return { turnId: turn.id, ordinal, text: renderMemories(entries), ids: idsOf(entries) };
}

function idsOf(entries: readonly GivenMemory[]): string[] {
  return entries.filter(({ content }) => content !== '').map(({ id }) => id);
}
