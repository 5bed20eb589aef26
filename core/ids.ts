/** Ids derived from names, and digests. Random ids come from `lib/new-id.ts`. */
import { hash } from 'node:crypto';
import { v5 } from 'uuid';
import { canonicalJson } from './canonical-json.ts';

const NAMESPACE = '5a1f0f4e-7d0b-5c11-9d5e-0d2f6b8a4c10';

/** A UUIDv5: the same name gives the same id on every machine. */
export function fixedId(name: string): string {
  return v5(name, NAMESPACE);
}

export function sha256(data: string | Buffer): Buffer {
  return hash('sha256', data, 'buffer');
}

/** SHA-256 over the canonical JSON, in hex. */
export function digestOf(value: unknown): string {
  return sha256(canonicalJson(value)).toString('hex');
}
