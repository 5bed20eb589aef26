/** Caches what new runs of agents start with. */
import { LRUCache } from 'lru-cache';
import type { AgentDefinition } from '../../core/definition.ts';
import type { PinnedTool } from '../../core/events.ts';

/** An agent's version, and its tools at their current versions. */
export interface Start {
  version: string;
  definition: AgentDefinition;
  tools: PinnedTool[];
  /** Set if a version other than the current one was requested. */
  older?: OlderVersion;
  /** For the current version: its publication time by the database's clock, in ms since the epoch. */
  sinceMs?: number;
}

/** How an older version guards calls, compared with the current one. */
interface OlderVersion {
  /** The current version's autonomy level. */
  level: number;
  /** Other guards that are looser than in the current version. */
  loosened: string[];
}

/**
 * Keyed by the tenant's governance at the time of reading, and kept as long as that: a change of an agent or tool
 * raises the policy epoch, so that the policy cache makes a new object.
 */
export interface StartCache {
  find: (governance: object, key: string) => Start | undefined;
  keep: (governance: object, key: string, start: Start) => void;
}

const MOST_OF_A_TENANT = 1000;

export function createStartCache(): StartCache {
  const starts = new WeakMap<object, LRUCache<string, Start>>();
  return {
    find: (governance, key) => starts.get(governance)?.get(key),
    keep(governance, key, start) {
      const kept = starts.get(governance) ?? new LRUCache<string, Start>({ max: MOST_OF_A_TENANT });
      starts.set(governance, kept.set(key, start));
    },
  };
}
