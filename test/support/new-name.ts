import { randomUUID } from 'node:crypto';

/** A name that no other agent of the workspace has. */
export function newName(what = 'agent'): string {
  return `${what} ${randomUUID()}`;
}
