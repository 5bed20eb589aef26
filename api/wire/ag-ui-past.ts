/** The conversation before a turn, for an AG-UI client that goes on with it: it may have all, a part or nothing of that. */
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Context } from '../../modules/governance/context.ts';
import { readPastTurns, type PastTurn } from '../../modules/conversations/shown-turns.ts';
import type { LoggedEvent } from '../../modules/runs/read-runs.ts';
import type { ShownTurn } from '../../modules/sessions/converse.ts';
import { agUi, inputOfTurn, messagesOf, type AgUiClient, type AgUiForm, type AgUiMessage } from './ag-ui.ts';
import { foldEvent } from './fold-turn.ts';
import { readTurns } from './read-turns.ts';
import { beforeTurn, callsOf, type TurnView } from './turn-view.ts';

/**
 * The form for a client that goes on with a turn: its snapshots also hold the turns before that one, the newest that fit
 * a page, in their order.
 */
export async function agUiWithPast(
  context: Context,
  { caller, turn }: { caller: Caller; turn: ShownTurn },
  client: AgUiClient,
): Promise<AgUiForm> {
  const { threadId, turnId } = turn;
  const turns = await context.db.withTenant(caller.tenantId, async (tx) => {
    const page = { threadId, before: undefined, limit: LIMITS.snapshotTurns + 1 };
    return (await readPastTurns(tx, caller, page)).turns;
  });
  const place = turns.findIndex((each) => each.turnId === turnId);
  const past = await readPast(context, { tenantId: caller.tenantId, turns: turns.slice(place + 1) }, client);
  if (past.length === 0) return agUi(client);
  const now = { turnId, message: turns[place]?.input.message ?? '' };
  const { messages, hasInput } = withPast(client, past, now);
  const { messages: had } = client;
  const isInOrder = had.every(({ id }, index) => messages[index]?.id === id);
  return agUi({ ...client, messages, joined: { hasInput } }, isInOrder ? undefined : had);
}

/** Turns, newest first, as far as they fit a page; oldest first. */
async function readPast(
  context: Context,
  request: { tenantId: string; turns: readonly PastTurn[] },
  client: AgUiClient,
): Promise<TurnView[]> {
  const past: TurnView[] = [];
  let bytes = 0;
  for await (const [, { view }] of readTurns(context, request, openView)) {
    bytes += JSON.stringify([inputOfTurn(view), ...messagesOf(view, client)]).length;
    if (bytes > LIMITS.eventsPageBytes) break;
    past.unshift(view);
  }
  return past;
}

function openView({ turnId }: PastTurn) {
  const view = beforeTurn(turnId);
  return {
    view,
    take(event: LoggedEvent) {
      if (!view.end) foldEvent(view, event);
    },
  };
}

/** Ids of what the agent says in a turn begin with the turn's. */
const OF_TURN = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\./;

/**
 * The client's messages, with all of these turns where they belong; those of `now` stay. The user's messages have no
 * turn's id: the client's own stand for the words of the turns that began with the same.
 */
function withPast(
  client: AgUiClient,
  past: readonly TurnView[],
  now: Pick<TurnView, 'turnId' | 'message'>,
): { messages: AgUiMessage[]; hasInput: boolean } {
  const { messages: had } = client;
  const turns = [...past, now];
  const contents = past.map((view) => messagesOf(view, client));
  const turnOf = turnsOfMessages(turns, contents, past);
  // What is older than these turns comes first.
  const isOlder = (message: AgUiMessage) => isSaid(message) && OF_TURN.test(message.id) && turnOf(message) < 0;
  const older = had.findLastIndex(isOlder) + 1;
  const messages = had.slice(0, older);
  const begun = new Set<number>();
  let told = 0;
  const tellUntil = (end: number) => {
    for (const view of past.slice(told, end)) {
      messages.push(...(begun.has(told) ? [] : [inputOfTurn(view)]), ...(contents[told] ?? []));
      told += 1;
    }
  };
  for (const message of had.slice(older)) {
    const of = turnOf(message);
    if (of >= 0) tellUntil(of + 1);
    const begins = of >= 0 ? -1 : turns.findIndex((turn, at) => at >= told && !begun.has(at) && isInput(message, turn));
    if (begins >= 0) {
      tellUntil(begins);
      begun.add(begins);
    }
    if (of < 0 || of === past.length) messages.push(message);
  }
  tellUntil(past.length);
  return { messages, hasInput: begun.has(past.length) };
}

/** The place of the turn that a message is of, and that shows it; -1 if there is none. */
function turnsOfMessages(
  turns: readonly Pick<TurnView, 'turnId'>[],
  contents: readonly (readonly AgUiMessage[])[],
  past: readonly TurnView[],
): (message: AgUiMessage) => number {
  const places = new Map(contents.flatMap((shown, place) => shown.map(({ id }) => [id, place] as const)));
  const ofTurns = new Map(turns.map(({ turnId }, place) => [turnId, place]));
  const ofCalls = new Map<unknown, number>(
    past.flatMap((view, place) => callsOf(view).map(({ id }) => [id, place] as const)),
  );
  return ({ id, role, toolCallId }) =>
    places.get(id) ??
    ofTurns.get(id.replace(/\..*/, '')) ??
    (role === 'tool' ? ofCalls.get(toolCallId) : undefined) ??
    -1;
}

function isSaid({ role }: AgUiMessage): boolean {
  return role === 'assistant' || role === 'reasoning';
}

const textParts = z.array(z.looseObject({ text: z.string() }));

function isInput({ role, content }: AgUiMessage, { message: said }: Pick<TurnView, 'message'>): boolean {
  if (role !== 'user') return false;
  if (typeof content === 'string') return content === said;
  return (
    textParts
      .safeParse(content)
      .data?.map(({ text }) => text)
      .join('\n') === said
  );
}
