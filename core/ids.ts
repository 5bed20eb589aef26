import { createHash, randomBytes } from 'node:crypto';
import canonicalize from 'canonicalize';
import { v5, v7 } from 'uuid';

/** A new id: UUIDv7 (RFC 9562), so that ids sort by the time they were made. */
export function newId(): string {
  return v7();
}

const NAMESPACE = '5a1f0f4e-7d0b-5c11-9d5e-0d2f6b8a4c10';

/** The same name gives the same id, on every machine (UUIDv5). */
export function fixedId(name: string): string {
  return v5(name, NAMESPACE);
}

/** A secret of 256 random bits, URL-safe. */
export function newSecret(): string {
  return randomBytes(32).toString('base64url');
}

export function sha256(data: string | Buffer): Buffer {
  return createHash('sha256').update(data).digest();
}

/** Canonical JSON (RFC 8785): the same value gives the same bytes. */
export function canonicalJson(value: unknown): string {
  return canonicalize(value) ?? 'null';
}

/** SHA-256 over the canonical JSON, in hex. */
export function digestOf(value: unknown): string {
  return sha256(canonicalJson(value)).toString('hex');
}
