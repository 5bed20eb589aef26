/** Whose memories are compared with each other. Pure. */
import type { MemorySettings } from '../definition.ts';

/** Who says something: a session's user, or nobody; and whether their agent keeps memories of users apart. */
export interface Whose {
  userId: string | undefined;
  isApart: boolean;
}

/** Whether an agent keeps users apart: its turns are given what belongs to their user or thread, and not all of the agent's. */
export function keepsApart({ scopes }: Pick<MemorySettings, 'scopes'>): boolean {
  return scopes !== undefined && !scopes.includes('agent') && (scopes.includes('user') || scopes.includes('thread'));
}

/**
 * Whether an entry of this owner may be taken for what somebody says, or corrected by it: never one of another user. What belongs
 * to nobody concerns everybody, unless users are kept apart: then nobody would be given it.
 */
export function concerns(owner: unknown, { userId, isApart }: Whose): boolean {
  if (isApart) return (owner ?? undefined) === userId;
  return userId === undefined || (owner ?? userId) === userId;
}
