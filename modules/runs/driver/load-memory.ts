/** The memories of a turn: found before its first model call, kept in the log, and read from there by whoever goes on with it. */
import { recordMemories } from '../../../core/decision-events/memory.ts';
import { memorySettings } from '../../../core/definition.ts';
import type { Decision } from '../../../core/decide.ts';
import { readEvent } from '../../../core/events.ts';
import { renderMemories, type GivenMemory } from '../../../core/memory/prompt.ts';
import type { RunState } from '../../../core/state.ts';
import type { MessageRow, RunRow } from '../../../db/claim-run.ts';
import { readEvents } from '../../../db/events.ts';
import { findForgotten, forgetInRuns } from '../../../db/memory-forget.ts';
import { shareGivingOf } from '../../../db/memory-lock.ts';
import { giveMemories } from '../../memory/give-memories.ts';
import { appendEvent, type RunLog } from '../../run-log/run-log.ts';
import type { Context } from '../../governance/context.ts';
import { recordedMemories } from './replay-source.ts';
import type { DriveSession, TurnMemory } from './session.ts';

type CallModel = Extract<Decision, { kind: 'call_model' }>;

/** Gives the turn its memories, once, where its agent has any: the event goes with the commit that announces the model call. */
export async function loadMemory(session: DriveSession, { step }: CallModel): Promise<void> {
  const { log, definition, context, tenantId, run } = session;
  const { turn } = log.state;
  if (!turn || turn.memory || !memorySettings(definition).enabled) return;
  const recorded = recordedMemories(session, step);
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
  const ordinal = firstMessageOf(log, turn.from);
  appendEvent(log, recordMemories(log.state, { entries, step, ordinal, recorded: recorded !== undefined }));
  session.memory = { turnId: turn.id, ordinal, text: renderMemories(entries), unsure: idsOf(entries) };
}

/**
 * What was forgotten between the question and the commit that has written the answer down goes from the log: whoever forgot it
 * could not see it there yet. Looked at once by each process that goes on with the turn, before it calls a model.
 */
export async function dropForgotten(session: DriveSession): Promise<void> {
  const { memory, context, tenantId, run, log } = session;
  if (!memory || memory.unsure.length === 0) return;
  const gone = await context.db.withTenant(tenantId, async (tx) => {
    await shareGivingOf(tx, run.agent_id);
    const forgotten = await findForgotten(tx, memory.unsure);
    if (forgotten.length > 0) await forgetInRuns(tx, forgotten);
    return forgotten.length;
  });
  const left = gone > 0 ? await readMemory(context, run, log.state) : memory;
  session.memory = left && { ...left, unsure: [] };
  // The request that was announced has what is gone now.
  if (gone > 0) session.step.announced = null;
}

/** Where the turn begins in the conversation. A fork in the middle of a turn goes on with the message that is there. */
function firstMessageOf({ messages }: RunLog, from: number | undefined): number {
  const begins = ({ role, content }: MessageRow) =>
    role === 'user' && content.every((block) => block.type !== 'tool_result');
  const first = messages.find((message) => message.ordinal === from && begins(message));
  return (first ?? messages.findLast(begins))?.ordinal ?? 0;
}

/** The memories of a turn that has begun, from its log. */
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
  return { turnId: turn.id, ordinal, text: renderMemories(entries), unsure: idsOf(entries) };
}

function idsOf(entries: readonly GivenMemory[]): string[] {
  return entries.filter(({ content }) => content !== '').map(({ id }) => id);
}
