import { walkChain, type BrokenLink, type ChainPlace } from '../../core/audit.ts';
import { countUnsealedRows, findAuditHead, findSealedLink, listSealedRows, type SealedLink } from '../../db/audit.ts';
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

const BEGINNING: ChainPlace = { seq: 0, hash: '' };

/**
 * Checks a piece of the tenant's chain: at most `limit` rows after place `after`. An altered, deleted or moved row
 * breaks it at its place; a chain that was cut at its end does not reach the head. A piece that begins after a place
 * which the chain does not have is broken there, and no link is known to hold.
 */
export async function verifyAudit(tx: Tx, { after, limit }: { after: number; limit: number }): Promise<AuditVerdict> {
  // Reads the head before the rows: a sealer may add to both in between, but never removes.
  const end = await findAuditHead(tx);
  const first = after === 0 ? undefined : await findSealedLink(tx, after);
  const from = first ? { seq: after, hash: first.hash } : { seq: after, hash: '' };
  const unsealed = await countUnsealedRows(tx);
  const fault = startFault({ after, first, end });
  if (fault) return { checked: 0, broken: fault, from, head: BEGINNING, next: null, unsealed };
  const rows = await listSealedRows(tx, { after, limit });
  const { place, broken } = walkChain(from, rows);
  const isEnd = rows.length < limit;
  return {
    checked: place.seq - after + (broken ? 1 : 0),
    broken: broken ?? headFault({ end, place, isEnd, links: first ? [first, ...rows] : rows }),
    from,
    head: place,
    next: isEnd || broken ? null : place.seq,
    unsealed,
  };
}

interface Start {
  after: number;
  /** The row at that place. */
  first: SealedLink | undefined;
  end: ChainPlace | undefined;
}

/** The fault where a piece begins: a place beyond the recorded head, or one whose row is missing. Null if there is none. */
function startFault({ after, first, end = BEGINNING }: Start): BrokenLink | null {
  if (after > end.seq) return { seq: after, id: first?.id ?? null, reason: 'not the head' };
  return after > 0 && !first ? { seq: after, id: null, reason: 'missing' } : null;
}

interface Walked {
  end: ChainPlace | undefined;
  place: ChainPlace;
  isEnd: boolean;
  /** The rows of the piece, and the one that it begins after. */
  links: readonly SealedLink[];
}

/** The fault at the head: missing rows, or another hash in the head's row. Null if there is none. */
function headFault({ end, place, isEnd, links }: Walked): BrokenLink | null {
  if (!end) return place.seq === 0 ? null : { seq: place.seq, id: null, reason: 'not the head' };
  if (isEnd && place.seq < end.seq) return { seq: place.seq + 1, id: null, reason: 'missing' };
  const noted = links.find(({ seq }) => seq === end.seq);
  return noted && noted.hash !== end.hash ? { seq: noted.seq, id: noted.id, reason: 'not the head' } : null;
}
