/** The trust of messages that a client gives a fork in place of the original's. */
import { canonicalJson } from '../../../core/canonical-json.ts';
import { filesIn, type Message } from '../../../core/content.ts';
import type { MessageOrigin } from '../../../core/origin.ts';
import type { Tx } from '../../../db/database.ts';
import { findFiles } from '../../../db/files.ts';
import { listUntrusted, readMessages } from '../../../db/messages.ts';
import type { MessageRow, RunRow } from '../../../db/claim-run.ts';
import { messagesFor } from '../../run-log/conversation.ts';

interface TrustOfMessages {
  /** Of each message. */
  isUntrusted: boolean[];
  /** The messages end with some that no model has answered to, untrusted ones among them. */
  isTainted: boolean;
  /** Ids of the files in them for which nobody vouches. */
  untrustedFiles: ReadonlySet<string>;
}

/**
 * All messages and results of the original keep their trust, wherever they stand, and so do texts that came with a message.
 * Other words are the client's; images are not, nor files, unless somebody vouches for them.
 */
export async function trustOfGiven(
  tx: Tx,
  original: Pick<RunRow, 'id' | 'length'>,
  given: readonly Message[],
): Promise<TrustOfMessages> {
  const known = await knownMessages(tx, original);
  const untrustedFiles = await untrustedFilesIn(tx, given);
  const isUntrusted = given.map((message) => isUntrustedGiven(message, { ...known, files: untrustedFiles }));
  const open = given.slice(startOfTurn(given, known));
  const isTainted = open.at(-1)?.role === 'user' && isUntrusted.slice(given.length - open.length).includes(true);
  return { isUntrusted, isTainted, untrustedFiles };
}

/** Files that are gone are among them. */
async function untrustedFilesIn(tx: Tx, given: readonly Message[]): Promise<ReadonlySet<string>> {
  const ids = new Set(given.flatMap(filesIn).map((block) => block.file_id));
  const rows = ids.size > 0 ? await findFiles(tx, [...ids]) : [];
  for (const { id, trust } of rows) if (trust === 'trusted') ids.delete(id);
  return ids;
}

interface Known {
  byContent: ReadonlyMap<string, { origin: MessageOrigin | undefined; isUntrusted: boolean }>;
  /** The tool uses whose results are untrusted. */
  uses: ReadonlySet<string>;
  /** Untrusted texts that came with messages. */
  texts: ReadonlySet<string>;
}

async function knownMessages(tx: Tx, { id, length }: Pick<RunRow, 'id' | 'length'>): Promise<Known> {
  const rows = await readMessages(tx, id, { length });
  const calls = rows.flatMap(({ outcomes }) => Object.keys(outcomes ?? {}));
  const { ordinals, uses } = await listUntrusted(tx, id, { length, calls });
  const { messages } = messagesFor(rows, Number.POSITIVE_INFINITY);
  const untrusted = new Set(ordinals);
  const ofMessages = messages.filter((_, index) => untrusted.has(index)).flatMap(resultIds);
  const byContent = messages.map((message, index) => {
    const about = { origin: rows[index]?.origin, isUntrusted: untrusted.has(index) };
    return [canonicalJson(message), about] as const;
  });
  const texts = rows.filter((_, index) => untrusted.has(index)).flatMap(textsWith);
  return { byContent: new Map(byContent), uses: new Set([...uses, ...ofMessages]), texts: new Set(texts) };
}

/** The texts that came with a user's message, whose own words are last. */
function textsWith({ role, content }: MessageRow): string[] {
  if (role !== 'user') return [];
  return content.slice(0, -1).flatMap((block) => (block.type === 'text' && 'text' in block ? [block.text] : []));
}

function resultIds({ content }: Message): string[] {
  return content.flatMap((block) => (block.type === 'tool_result' ? [block.tool_use_id] : []));
}

function isUntrustedGiven(message: Message, known: Known & { files: ReadonlySet<string> }): boolean {
  if (resultIds(message).some((id) => known.uses.has(id))) return true;
  const same = known.byContent.get(canonicalJson(message));
  if (same) return same.isUntrusted;
  return message.content.some((block) => isUntrustedBlock(block, known));
}

function isUntrustedBlock(
  block: Message['content'][number],
  known: Pick<Known, 'texts'> & { files: ReadonlySet<string> },
): boolean {
  switch (block.type) {
    case 'image':
      return true;
    case 'file':
      return known.files.has(block.file_id);
    case 'text':
      return known.texts.has(block.text);
    case 'tool_result':
      return typeof block.content !== 'string' && block.content.some((part) => isUntrustedBlock(part, known));
    default:
      // What the provider's tools have found.
      return block.type.endsWith('_tool_result');
  }
}

/** The last message with which a person begins a turn: it follows a model's answer, and is none of Drover's. */
function startOfTurn(given: readonly Message[], { byContent }: Known): number {
  const start = given.findLastIndex((message, index) => {
    const isFirst = message.role === 'user' && given[index - 1]?.role !== 'user' && resultIds(message).length === 0;
    return isFirst && byContent.get(canonicalJson(message))?.origin !== 'drover';
  });
  return Math.max(start, 0);
}
