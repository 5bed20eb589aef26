/** Messages that a client gives a fork, made whole: what checkpoints show of a conversation is not all that models read. */
import { canonicalJson } from '../../../core/canonical-json.ts';
import { filesIn, isProviderBlock, type FileBlock, type Message, type ToolResultBlock } from '../../../core/content.ts';
import { badRequest, impossible } from '../../../core/errors.ts';
import { LIMITS } from '../../../core/limits.ts';
import type { MessageRow, RunRow } from '../../../db/claim-run.ts';
import type { Tx } from '../../../db/database.ts';
import { findFiles, type FileRow } from '../../../db/files.ts';
import { readMessages } from '../../../db/messages.ts';
import type { FilesTaken } from '../../../llm/provider.ts';
import { faultOfAttached, fileBlockOf, TOO_MUCH, UNKNOWN } from '../../files/attachments.ts';
import { messagesFor } from '../../run-log/conversation.ts';

interface Given {
  original: Pick<RunRow, 'id' | 'length' | 'workspace_id'>;
  messages: Message[];
  /** Says what the fork's model accepts. */
  taken: () => FilesTaken;
}

const PATH = 'body.modified_state.messages';

/**
 * The messages with whole results where the client has their address, and with files as the run's conversation or the
 * workspace has them. Throws 400 for a provider's block that is none of the run's: it could name what is another's. Throws 422
 * for files that could not be attached to a message either.
 */
export async function takeGiven(tx: Tx, { original, messages, taken }: Given): Promise<Message[]> {
  if (!messages.some(refersToOthers)) return messages;
  const known = knownOf(await readMessages(tx, original.id, { length: original.length }));
  const foreign = messages.flatMap((message) => filesIn(message)).filter((block) => !known.files.has(block.file_id));
  const ids = foreign.map((block) => block.file_id);
  const rows = new Map((await findFiles(tx, ids, original.workspace_id)).map((row) => [row.id, row]));
  return messages.map((message, index) => {
    if (known.messages.has(canonicalJson(message))) return message;
    const path = `${PATH}.${index}.content`;
    const whole = takenMessage(message, { known, rows, taken, path });
    checkBytes(whole, path);
    return whole;
  });
}

function refersToOthers(message: Message): boolean {
  if (filesIn(message).length > 0) return true;
  return message.content.some((block) =>
    block.type === 'tool_result' ? addressIn(block) !== undefined : isProviderBlock(block),
  );
}

/** The call whose output a checkpoint names by its address. */
function addressIn({ content }: ToolResultBlock): string | undefined {
  const address = /^\[output of \d+ bytes: \/v1\/tool-calls\/([0-9a-f-]{36})\/output\]$/;
  return typeof content === 'string' ? address.exec(content)?.[1] : undefined;
}

/** What the run's conversation has, as canonical JSON or by id. */
interface Known {
  messages: ReadonlySet<string>;
  ofProvider: ReadonlySet<string>;
  blocks: ReadonlySet<string>;
  files: ReadonlyMap<string, FileBlock>;
  /** By tool use and call. */
  results: ReadonlyMap<string, ToolResultBlock>;
}

function knownOf(rows: readonly MessageRow[]): Known {
  const { messages } = messagesFor(rows, Number.POSITIVE_INFINITY);
  const files = messages.flatMap(filesIn);
  const results = messages.flatMap(({ content }, index) =>
    content.flatMap((block, place) => {
      const stored = rows[index]?.content[place];
      if (block.type !== 'tool_result' || !stored || !('tool_call_id' in stored)) return [];
      return [[`${block.tool_use_id} ${stored.tool_call_id}`, block] as const];
    }),
  );
  const ofProvider = messages.flatMap(({ content }) => content.filter(isProviderBlock));
  return {
    messages: new Set(messages.map((message) => canonicalJson(message))),
    ofProvider: new Set(ofProvider.map((block) => canonicalJson(block))),
    blocks: new Set(files.map((block) => canonicalJson(block))),
    files: new Map(files.map((block) => [block.file_id, block])),
    results: new Map(results),
  };
}

interface Taking {
  known: Known;
  rows: ReadonlyMap<string, FileRow>;
  taken: () => FilesTaken;
  path: string;
}

function takenMessage(message: Message, { path, ...taking }: Taking): Message {
  if (message.role === 'assistant') {
    for (const [place, block] of message.content.entries()) {
      if (!isProviderBlock(block) || taking.known.ofProvider.has(canonicalJson(block))) continue;
      const [at, why] = [`${path}.${place}`, "is a provider's, and none of this run's"];
      throw badRequest(`${at} ${why}.`, [{ path: at, message: why }]);
    }
    return message;
  }
  const content = message.content.map((block, place) => {
    const at = { ...taking, path: `${path}.${place}` };
    if (block.type === 'file') return takenFile(block, at);
    return block.type === 'tool_result' ? takenResult(block, at) : block;
  });
  return { role: 'user', content };
}

function takenResult(block: ToolResultBlock, { path, ...taking }: Taking): ToolResultBlock {
  const call = addressIn(block);
  const result = call === undefined ? undefined : taking.known.results.get(`${block.tool_use_id} ${call}`);
  if (result) return { ...block, content: result.content };
  if (typeof block.content === 'string') return block;
  const content = block.content.map((part, place) =>
    part.type === 'file' ? takenFile(part, { ...taking, path: `${path}.content.${place}` }) : part,
  );
  return { ...block, content };
}

/** A file of the conversation may be gone by now: models are told so. */
function takenFile(block: FileBlock, { known, rows, taken, path }: Taking): FileBlock {
  if (known.blocks.has(canonicalJson(block))) return block;
  const same = known.files.get(block.file_id);
  if (same) return same;
  const row = rows.get(block.file_id);
  const fault = row ? faultOfAttached(row, taken()) : UNKNOWN;
  if (!row || fault !== undefined) throw refused(path, fault);
  return fileBlockOf(row);
}

/** Holds a message to the size of one that is sent with attachments. Results of tools have no such limit. */
function checkBytes({ content }: Message, path: string): void {
  let bytes = 0;
  for (const [place, block] of content.entries()) {
    if (block.type !== 'file') continue;
    bytes += block.size;
    if (bytes > LIMITS.attachedBytes) throw refused(`${path}.${place}`, TOO_MUCH);
  }
}

function refused(path: string, message = UNKNOWN): Error {
  return impossible(`${path} ${message}.`, [{ path, message }]);
}
