/** What is open with a key ends with the key: its revocation is told at once, and found at the next look with its expiry. */
import type { Bus } from '../../bus/bus.ts';
import type { Context } from '../governance/context.ts';

/** Tells all processes that a key was revoked. A hint, sent when that is committed. */
export function announceKeyEnd(bus: Bus, keyId: string): void {
  bus.publish({ subject: keyId, kind: 'advanced', seq: 1 });
}

/** Calls back once the key is revoked or has expired, a few seconds later at most. Gives the end of it. */
export function watchKey(context: Context, keyId: string, onEnd: () => void): () => void {
  const unsubscribe = context.bus.subscribe(keyId, onEnd);
  const unwatch = context.positions.watch({ kind: 'key', id: keyId }, (position) => {
    if (position === Infinity) onEnd();
  });
  return () => {
    unsubscribe();
    unwatch();
  };
}
