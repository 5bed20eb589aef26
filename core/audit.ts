/** The audit log: names of recorded acts, and the hash chain of its rows. */
import { canonicalJson } from './canonical-json.ts';
import { sha256 } from './ids.ts';

/** The name of an act: `family.what_happened`, in the past tense. docs/audit.md lists them all, and a test compares. */
export type AuditAction = `${string}.${string}`;

/** `operator` is the default tenant's admin key; `system` is Drover itself, at a start or on the command line. */
export const AUDIT_ACTORS = ['api_key', 'operator', 'system'] as const;
export type AuditActor = (typeof AUDIT_ACTORS)[number];

/** A row as it is hashed: all of its columns but the hash. */
export interface SealedContent {
  id: string;
  tenant_id: string;
  seq: number;
  workspace_id: string | null;
  action: string;
  actor_type: string;
  actor_id: string | null;
  target_type: string;
  target_id: string | null;
  digest: string | null;
  details: Record<string, unknown>;
  ip: string | null;
  forwarded_for: string | null;
  request_id: string | null;
  /** RFC 3339 in UTC with microseconds, as the database has it. */
  created_at: string;
}

/** SHA-256 in hex over the previous row's hash, a line feed, and the row's canonical JSON (RFC 8785). */
export function auditHash(previous: string, row: SealedContent): string {
  return sha256(`${previous}\n${canonicalJson(row)}`).toString('hex');
}

export interface BrokenLink {
  seq: number;
  /** Id of the row found there; null if there is none. */
  id: string | null;
  reason: 'missing' | 'altered' | 'not the head';
}

/** A position on the chain: the last row found intact, and its hash. */
export interface ChainPlace {
  seq: number;
  hash: string;
}

/** Verifies rows in chain order, starting after `from`. Returns how far the chain is intact, and the first broken link. */
export function walkChain(
  from: ChainPlace,
  rows: readonly (SealedContent & { hash: string })[],
): { place: ChainPlace; broken: BrokenLink | null } {
  let place = from;
  for (const { hash, ...row } of rows) {
    const seq = place.seq + 1;
    if (row.seq !== seq) return { place, broken: { seq, id: null, reason: 'missing' } };
    if (auditHash(place.hash, row) !== hash) return { place, broken: { seq, id: row.id, reason: 'altered' } };
    place = { seq, hash };
  }
  return { place, broken: null };
}
