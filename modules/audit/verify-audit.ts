import { walkChain, type BrokenLink, type ChainPlace } from '../../core/audit.ts';
import { countUnsealedRows, findAuditHead, findSealedHash, listSealedRows } from '../../db/audit.ts';
import type { Tx } from '../../db/database.ts';

interface AuditVerdict {
  /** The number of links checked in this piece. */
  checked: number;
  broken: BrokenLink | null;
  /** The link before this piece; place 0 has no hash. */
  from: ChainPlace;
  /** The last valid link. */
  head: ChainPlace;
  /** The `after` of the next piece; null at the end of the chain. */
  next: number | null;
  unsealed: { count: number; oldest: Date | null };
}

/**
 * Checks a piece of the tenant's chain: at most `limit` rows after place `after`. An altered, deleted or moved row
 * breaks it at its place; a chain that was cut at its end does not reach the head.
 */
export async function verifyAudit(tx: Tx, { after, limit }: { after: number; limit: number }): Promise<AuditVerdict> {
  // Reads the head before the rows: a sealer may add to both in between, but never removes.
  const end = await findAuditHead(tx);
  const from = { seq: after, hash: after === 0 ? '' : ((await findSealedHash(tx, after)) ?? '') };
  const rows = await listSealedRows(tx, { after, limit });
  const { place, broken } = walkChain(from, rows);
  const isEnd = rows.length < limit;
  return {
    checked: place.seq - after + (broken ? 1 : 0),
    broken: broken ?? headFault({ end, place, isEnd, rows }),
    from,
    head: place,
    next: isEnd || broken ? null : place.seq,
    unsealed: await countUnsealedRows(tx),
  };
}

interface Walked {
  end: ChainPlace | undefined;
  place: ChainPlace;
  isEnd: boolean;
  rows: readonly { seq: number; id: string; hash: string }[];
}

/** The fault at the head: missing rows, or another hash in the head's row. Null if there is none. */
function headFault({ end, place, isEnd, rows }: Walked): BrokenLink | null {
  if (!end) return place.seq === 0 ? null : { seq: place.seq, id: null, reason: 'not the head' };
  if (isEnd && place.seq < end.seq) return { seq: place.seq + 1, id: null, reason: 'missing' };
  const noted = rows.find(({ seq }) => seq === end.seq);
  return noted && noted.hash !== end.hash ? { seq: noted.seq, id: noted.id, reason: 'not the head' } : null;
}
