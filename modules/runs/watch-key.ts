/** Ends connections along with their key: revocation is announced at once, an end that was brought forward is found at the next look. */
import type { Bus } from '../../bus/bus.ts';
import type { Context } from '../governance/context.ts';

/** Tells all processes that a key was revoked. A hint, to be sent after the commit. */
export function announceKeyEnd(bus: Bus, keyId: string): void {
  bus.publish({ subject: keyId, kind: 'advanced', seq: 1 });
}

/** Calls `onEnd` within a few seconds after the key is revoked or has expired. Returns the function that stops watching. */
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
