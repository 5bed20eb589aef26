/** Compares conversations as people see them with the logs of their runs. */
import type { RunEvent } from '../../core/events.ts';
import { findRunRow } from '../../db/runs.ts';
import { readThreadConversations, type Conversation } from '../../modules/conversations/read-conversations.ts';
import type { StartedRun } from './drive.ts';
import type { ExaminedRun } from './examine-run.ts';
import type { Probe } from './probe.ts';

/** Sentences about turns shown differently from the logs of ended runs; empty if all is well. */
export async function examineConversations(
  probe: Probe,
  examined: ReadonlyMap<StartedRun, ExaminedRun>,
): Promise<string[]> {
  const found: string[] = [];
  for (const [run, { log }] of examined) {
    if (run.status === undefined) continue;
    const shown = await readOf(probe, run.id);
    found.push(...compareConversations(shown, log).map((sentence) => `${run.plan.label}: ${sentence}`));
  }
  return found;
}

type Shown = Pick<Conversation, 'messages' | 'usage'> & {
  row: Pick<Conversation['row'], 'id' | 'run_id' | 'stop_reason'>;
};

async function readOf(probe: Probe, runId: string): Promise<Shown[]> {
  return probe.read(async (tx) => {
    const run = await findRunRow(tx, runId);
    if (!run) return [];
    const caller = { workspaceId: run.workspace_id };
    const page = { threadId: run.thread_id, before: undefined, limit: 200 };
    const { conversations } = await readThreadConversations(tx, caller, page);
    return conversations.filter(({ row }) => row.run_id === runId);
  });
}

/** Differences between a run's shown turns and its log. */
export function compareConversations(shown: readonly Shown[], log: readonly RunEvent[]): string[] {
  const turns = log.flatMap(({ type, turn_id }) => (type === 'turn.started' && turn_id !== undefined ? [turn_id] : []));
  if (shown.length !== turns.length) return [`${shown.length} turns are shown, the log has ${turns.length}`];
  return shown.flatMap((each) => {
    const events = log.filter(({ turn_id }) => turn_id === each.row.id);
    const answers = events.flatMap((event) => (event.type === 'model.responded' ? [event.payload] : []));
    const said = answers.filter(({ tool }) => tool === undefined);
    const tokens = answers.reduce((sum, { usage, recorded }) => sum + (recorded ? 0 : usage.output), 0);
    const end = events.find(({ type }) => type === 'turn.completed');
    const stop = end?.type === 'turn.completed' ? end.payload.stop_reason : each.row.stop_reason;
    const assistants = each.messages.filter(({ role }) => role === 'assistant').length;
    const pairs: [what: string, is: unknown, logged: unknown][] = [
      ['answers', assistants, said.length],
      ['output tokens', each.usage.output_tokens, tokens],
      ['stop reason', each.row.stop_reason, stop],
    ];
    return pairs.flatMap(([what, is, logged]) =>
      is === logged ? [] : [`turn ${each.row.id} shows ${what} ${String(is)}, the log has ${String(logged)}`],
    );
  });
}
