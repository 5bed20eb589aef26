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
  const ids = [...new Set(log.messages.flatMap(handedIn))];
  if (ids.length === 0) return;
  const gone = new Set(await context.db.withTenant(tenantId, (tx) => findForgotten(tx, ids)));
  if (gone.size === 0) return;
  log.messages = log.messages.map((row) => (handedIn(row).some((id) => gone.has(id)) ? without(row, gone) : row));
  // The announced request contains what is gone now.
  drive.step.announced = null;
}

/** By row, so that each is read once. */
const handed = new WeakMap<MessageRow, string[]>();

/** Ids of the fragments that a message gives. */
function handedIn(row: MessageRow): string[] {
  const known = handed.get(row);
  if (known) return known;
  const blocks = row.role === 'user' ? row.content : [];
  const ids = blocks.flatMap((block) => (block.type === 'text' && 'text' in block ? fragmentsIn(block.text) : []));
  handed.set(row, ids);
  return ids;
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
