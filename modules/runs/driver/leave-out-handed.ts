/** Leaves out what handoffs have given of shared fragments that were forgotten since. */
import { fragmentsIn, withoutFragments } from '../../../core/handoff-brief.ts';
import type { MessageRow } from '../../../db/claim-run.ts';
import { findForgotten } from '../../../db/memory-forget.ts';
import type { Drive } from './drive-state.ts';

/**
 * Removes them from the briefs that models are sent. The stored message stays as it is, since its hash vouches for it: so
 * this is done anew for each model call.
 */
export async function leaveOutHanded(drive: Drive): Promise<void> {
  const { log, context, tenantId } = drive;
  const { ids } = handedUpTo(log.messages);
  if (ids.size === 0) return;
  const gone = new Set(await context.db.withTenant(tenantId, (tx) => findForgotten(tx, [...ids])));
  if (gone.size === 0) return;
  const [first] = log.messages;
  if (first) looks.delete(first);
  log.messages = log.messages.map((row) => (handedIn(row).some((id) => gone.has(id)) ? without(row, gone) : row));
  // The announced request contains what is gone now.
  drive.step.announced = null;
}

/** What a look at a conversation has found: ids of the fragments in its messages up to `last`. */
interface Look {
  count: number;
  last: MessageRow | undefined;
  ids: Set<string>;
}

/** By the conversation's first row, which a process keeps with the run: the next look reads what has been added. */
const looks = new WeakMap<MessageRow, Look>();

/** After a rewind, which takes the last row of a look away, all is read again. */
function handedUpTo(messages: readonly MessageRow[]): Look {
  const [first] = messages;
  const known = first && looks.get(first);
  const before = known && messages[known.count - 1] === known.last ? known : { count: 0, ids: new Set<string>() };
  for (const row of messages.slice(before.count)) for (const id of handedIn(row)) before.ids.add(id);
  const look = { ids: before.ids, count: messages.length, last: messages.at(-1) };
  if (first) looks.set(first, look);
  return look;
}

/** Ids of the fragments that a message gives. */
function handedIn({ role, content }: MessageRow): string[] {
  if (role !== 'user') return [];
  return content.flatMap((block) => (block.type === 'text' && 'text' in block ? fragmentsIn(block.text) : []));
}

/** A new row, since the rendering of a row is cached. */
function without(row: MessageRow, gone: ReadonlySet<string>): MessageRow {
  const content = row.content.map((block) =>
    block.type === 'text' && 'text' in block
      ? { ...block, text: withoutFragments(block.text, (id) => gone.has(id)) }
      : block,
  );
  return { ...row, content };
}
