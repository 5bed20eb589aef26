/** What new runs of agents start with, as a process has read it. */
import { LRUCache } from 'lru-cache';
import type { AgentDefinition } from '../../core/definition.ts';
import type { PinnedTool } from '../../core/events.ts';

/** A version of an agent, and the tools it names at their current versions. */
export interface Start {
  version: string;
  definition: AgentDefinition;
  tools: PinnedTool[];
  /** Of a version that somebody has asked for and that is not the current one. */
  older?: OlderVersion;
  /** Of the current version: when it was published, in ms since the epoch, by the database's clock. */
  sinceMs?: number;
}

/** How a version that is not the current one guards calls beside that. */
interface OlderVersion {
  /** The current one's autonomy level. */
  level: number;
  /** What else guards calls less than in the current one. */
  loosened: string[];
}

/**
 * By what governed the tenant when it was read, and kept as long as that is: whoever changes an agent or a tool raises the
 * policy epoch, with which the policy cache takes another object.
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
