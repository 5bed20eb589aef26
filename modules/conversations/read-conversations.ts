/** Conversations as shown by the API: one per turn, with its original messages and costs. */
import type { Caller } from '../../core/caller.ts';
import type { Message } from '../../core/content.ts';
import { erased, notFound } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { originOf, type MessageOrigin } from '../../core/origin.ts';
import { isSettled } from '../../core/state.ts';
import { findAgent } from '../../db/agents.ts';
import { readMessages } from '../../db/messages.ts';
import {
  findThreadTurn,
  listAgentTurns,
  listThreadTurns,
  setTurnExtras,
  type ConversationRow,
} from '../../db/conversations.ts';
import { readBeginnings, type Beginning } from '../../db/thread-beginnings.ts';
import {
  findHandedTurns,
  listTurnFiles,
  listTurnMessages,
  listTurnModelCalls,
  type TurnFile,
} from '../../db/turn-contents.ts';
import type { Page } from '../../db/page-bytes.ts';
import type { MessageRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { withPartials } from '../../db/turns.ts';
import { messagesFor } from '../run-log/conversation.ts';
import { spendingOf, type Spending } from './spending.ts';
import { keyOfTurn, requireThread, type TurnKey } from './threads.ts';

export type { ConversationRow };

/** A message; `origin` if it has the role of the user and Drover wrote it. */
type SaidMessage = Message & { origin?: Extract<MessageOrigin, 'drover'> };

export interface Conversation extends Spending {
  row: ConversationRow;
  /** As they were said, nothing left out or summarised; larger outputs of tools by their address. */
  messages: SaidMessage[];
  files: TurnFile[];
}

/** Where a list of conversations continues: the run's number or id, turn number, and how many forks back the thread is. */
type ConversationKey = [runId: string | number, number: number] | TurnKey;

interface ConversationPage {
  conversations: Conversation[];
  next: ConversationKey | undefined;
}

/**
 * A page of a thread's conversations, newest first; limited in size, too. A fork's go on with those of the threads that it was
 * forked from. Throws 404.
 */
export async function readThreadConversations(
  tx: Tx,
  caller: Pick<Caller, 'workspaceId'>,
  page: { threadId: string; before: ConversationKey | undefined; limit: number },
): Promise<ConversationPage> {
  const thread = await requireThread(tx, caller, page.threadId);
  const [place, number, forks = 0] = page.before ?? [];
  const before = typeof place === 'number' && number !== undefined ? { place, number, forks } : undefined;
  const turns = await listThreadTurns(tx, thread, { before, limit: page.limit });
  return readPage(tx, turns, (row) => keyOfTurn({ ...row, place: row.thread_place }));
}

/** A page of the conversations of an agent's runs, newest first. Throws 404. */
export async function readAgentConversations(
  tx: Tx,
  caller: Caller,
  page: { agentId: string; before: ConversationKey | undefined; limit: number },
): Promise<ConversationPage> {
  if (!(await findAgent(tx, page.agentId, caller.workspaceId))) throw notFound('The agent');
  const [run, number] = page.before ?? [];
  const before = typeof run === 'string' && number !== undefined ? { run, number } : undefined;
  const turns = await listAgentTurns(tx, page.agentId, { before, limit: page.limit });
  return readPage(tx, turns, (row) => [row.run_id, row.number]);
}

/** Replaces a client's own data on a conversation. Throws 404, and 409 if its run is erased. */
export async function changeConversation(
  tx: Tx,
  caller: Pick<Caller, 'workspaceId'>,
  { threadId, id, extras }: { threadId: string; id: string; extras: Record<string, unknown> | undefined },
): Promise<Conversation> {
  await requireThread(tx, caller, threadId);
  const row = await findThreadTurn(tx, threadId, id);
  if (!row) throw notFound('The conversation');
  if (extras && !(await setTurnExtras(tx, id, extras))) throw erased('The conversation');
  const changed = { ...row, extras: extras ?? row.extras };
  const { conversations } = await readPage(tx, { rows: [changed], more: false }, () => [id, row.number]);
  const [conversation] = conversations;
  if (!conversation) throw notFound('The conversation');
  return conversation;
}

async function readPage<R extends ConversationRow>(
  tx: Tx,
  { rows, more }: Page<R>,
  keyOf: (row: R) => ConversationKey,
): Promise<ConversationPage> {
  const turnIds = rows.map(({ id }) => id);
  const threadIds = [...new Set(rows.map((row) => row.thread_id))];
  const [extents, calls, files, handed, shown, beginnings] = await Promise.all([
    listTurnMessages(tx, turnIds),
    listTurnModelCalls(tx, rows),
    listTurnFiles(tx, turnIds),
    findHandedTurns(tx, turnIds),
    withPartials(tx, rows),
    readBeginnings(tx, threadIds),
  ]);
  const places = new Map(extents.map((place) => [place.turn_id, place]));
  const starts = await startsOfForks(tx, rows, { places, beginnings });
  const conversations: Conversation[] = [];
  let bytes = 0;
  let last: R | undefined;
  for (const row of shown) {
    const place = { from: places.get(row.id)?.from ?? 0, to: places.get(row.id)?.to ?? 0 };
    const from = starts.get(row.id) ?? Math.max(row.base_length, place.from);
    const messages = row.erased_at ? [] : await readTurnMessages(tx, row, { from, to: place.to });
    const of = handed.get(row.id);
    if (of && (of.isWritten || from < row.shared_length)) noteHandoff(messages);
    bytes += JSON.stringify(messages).length + (row.partial?.length ?? 0);
    if (last && bytes > LIMITS.eventsPageBytes) break;
    const ofTurn = <T extends { turn_id: string }>(all: T[]) => all.filter(({ turn_id }) => turn_id === row.id);
    const sequence_number = (beginnings.get(row.thread_id)?.turns ?? 0) + row.sequence_number;
    const numbered = { ...row, sequence_number };
    conversations.push({ row: numbered, messages, files: ofTurn(files), ...spendingOf(ofTurn(calls)) });
    last = row;
  }
  const hasMore = more || rows.length > conversations.length;
  return { conversations, next: hasMore && last ? keyOf(last) : undefined };
}

type Places = ReadonlyMap<string, { from: number | null; to: number | null }>;

/**
 * Where the first turns of threads begin in their conversations that begin with a fork: behind the last turn that the thread
 * shows of others. What lies between is no other turn's: messages that a client has given, or the beginning of a turn that was
 * open at the point.
 */
async function startsOfForks(
  tx: Tx,
  rows: readonly ConversationRow[],
  { places, beginnings }: { places: Places; beginnings: ReadonlyMap<string, Beginning> },
): Promise<ReadonlyMap<string, number>> {
  const firsts = rows.filter((row) => row.thread_place === 1 && beginnings.has(row.thread_id) && isFirst(places, row));
  const lastOf = (row: ConversationRow) => beginnings.get(row.thread_id)?.lastTurnId;
  const before = firsts.flatMap((row) => lastOf(row) ?? []);
  const ends = before.length > 0 ? await listTurnMessages(tx, before) : [];
  const endOf = new Map(ends.map(({ turn_id: id, to }) => [id, to]));
  return new Map(
    firsts.map((row) => {
      const last = lastOf(row);
      const end = last === undefined ? 0 : (endOf.get(last) ?? row.base_length);
      return [row.id, Math.min(end, row.base_length)];
    }),
  );
}

/** No turn of its run before it was read by a model. */
function isFirst(places: Places, { id }: ConversationRow): boolean {
  return typeof places.get(id)?.from !== 'number';
}

async function readTurnMessages(
  tx: Tx,
  row: ConversationRow,
  { from, to: length }: { from: number; to: number },
): Promise<SaidMessage[]> {
  if (length <= from) return [];
  const messages = await readMessages(tx, row.run_id, { from, length, shownBytes: LIMITS.shownOutputBytes });
  const said = row.completed_at === null ? messages.flatMap(withoutOpenCalls) : messages;
  return messagesFor(said, Number.POSITIVE_INFINITY).messages.map((message, index) => {
    const stored = said[index];
    const origin = stored && originOf(stored);
    return origin === 'drover' ? { ...message, origin } : message;
  });
}

/** Drover has said the first one, in the user's place. */
function noteHandoff(messages: SaidMessage[]): void {
  const first = messages.findIndex(({ role, origin }) => role === 'user' && origin === undefined);
  const message = messages[first];
  if (message) messages[first] = { ...message, origin: 'drover' };
}

/** Results have a place in the conversation in advance; while the turn is open, its calls may still get one. */
function withoutOpenCalls(row: MessageRow): MessageRow[] {
  const isOpen = (id: string) => !isSettled({ status: row.outcomes?.[id]?.status ?? 'pending' });
  const content = row.content.filter((block) => !('tool_call_id' in block) || !isOpen(block.tool_call_id));
  if (content.length === row.content.length) return [row];
  return content.length === 0 ? [] : [{ ...row, content }];
}
