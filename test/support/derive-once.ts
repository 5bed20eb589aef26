import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';

/**
 * Keeps what `scryptSync` has derived: 40 ms of a core each, on purpose, and each platform that a test opens derives the
 * same key.
 */
export function deriveKeysOnce(): void {
  const { scryptSync } = crypto;
  const derived = new Map<string, ReturnType<typeof scryptSync>>();
  crypto.scryptSync = (...args) => {
    const name = JSON.stringify(args);
    const key = derived.get(name) ?? scryptSync(...args);
    derived.set(name, key);
    return key;
  };
  syncBuiltinESMExports();
}
