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
import { requireThread } from './threads.ts';

export type { ConversationRow };

/** A message; `origin` if it has the role of the user and Drover wrote it. */
type SaidMessage = Message & { origin?: Extract<MessageOrigin, 'drover'> };

export interface Conversation extends Spending {
  row: ConversationRow;
  /** As they were said, nothing left out or summarised; larger outputs of tools by their address. */
  messages: SaidMessage[];
  files: TurnFile[];
}

/** Where a list of conversations continues: turn number, and the run's number or id. */
type ConversationKey = [runId: string | number, number: number];

interface ConversationPage {
  conversations: Conversation[];
  next: ConversationKey | undefined;
}

/** A page of a thread's conversations, newest first; limited in size, too. Throws 404. */
export async function readThreadConversations(
  tx: Tx,
  caller: Pick<Caller, 'workspaceId'>,
  page: { threadId: string; before: ConversationKey | undefined; limit: number },
): Promise<ConversationPage> {
  await requireThread(tx, caller, page.threadId);
  const [place, number] = page.before ?? [];
  const before = typeof place === 'number' && number !== undefined ? { place, number } : undefined;
  const turns = await listThreadTurns(tx, page.threadId, { before, limit: page.limit });
  return readPage(tx, turns, (row) => [row.thread_place, row.number]);
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
  const [extents, calls, files, handed, shown] = await Promise.all([
    listTurnMessages(tx, turnIds),
    listTurnModelCalls(tx, rows),
    listTurnFiles(tx, turnIds),
    findHandedTurns(tx, turnIds),
    withPartials(tx, rows),
  ]);
  const places = new Map(extents.map((place) => [place.turn_id, place]));
  const conversations: Conversation[] = [];
  let bytes = 0;
  let last: R | undefined;
  for (const row of shown) {
    const messages = row.erased_at ? [] : await readTurnMessages(tx, row, places.get(row.id));
    if (handed.get(row.id)?.isWritten) noteHandoff(messages);
    bytes += JSON.stringify(messages).length + (row.partial?.length ?? 0);
    if (last && bytes > LIMITS.eventsPageBytes) break;
    const ofTurn = <T extends { turn_id: string }>(all: T[]) => all.filter(({ turn_id }) => turn_id === row.id);
    conversations.push({ row, messages, files: ofTurn(files), ...spendingOf(ofTurn(calls)) });
    last = row;
  }
  const hasMore = more || rows.length > conversations.length;
  return { conversations, next: hasMore && last ? keyOf(last) : undefined };
}

async function readTurnMessages(
  tx: Tx,
  row: ConversationRow,
  place: { from: number | null; to: number | null } | undefined,
): Promise<SaidMessage[]> {
  const from = Math.max(row.base_length, place?.from ?? 0);
  const length = place?.to ?? 0;
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
