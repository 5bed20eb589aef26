/** The part of a conversation that models are sent, according to the log. */
import type { Compaction } from '../../core/compaction.ts';
import type { RefusedFiles } from '../../core/refused-files.ts';
import type { Message } from '../../core/content.ts';
import { LIMITS } from '../../core/limits.ts';
import { readMessages } from '../../db/messages.ts';
import type { Tx } from '../../db/database.ts';
import { withoutRefused } from '../run-log/refused-files.ts';
import { messagesFor, setAside, summaryMessage } from '../run-log/conversation.ts';

/** The summary of the beginning, if any, and those of the first `length` messages that are kept; `dropped` are left out. */
export async function readSent(
  tx: Tx,
  runId: string,
  of: { compaction: Compaction | undefined; firstKept: number; refusedFiles: RefusedFiles[]; length: number },
): Promise<{ summary: Message[]; messages: Message[]; dropped: number }> {
  const { compaction, firstKept: from, refusedFiles, length } = of;
  const rows = await readMessages(tx, runId, { from, length, shownBytes: LIMITS.shownOutputBytes });
  const kept = setAside(withoutRefused(rows, refusedFiles), compaction).filter(({ ordinal }) => ordinal >= from);
  const summary = compaction?.summary === undefined ? [] : [summaryMessage(compaction.summary)];
  const { messages } = messagesFor(kept, Number.POSITIVE_INFINITY);
  return { summary, messages, dropped: kept[0]?.ordinal ?? 0 };
}
