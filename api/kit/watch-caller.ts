/** Ends long-lived connections together with their key or token. */
import type { Caller } from '../../core/caller.ts';
import type { Context } from '../../modules/governance/context.ts';
import { watchKey } from '../../modules/runs/watch-key.ts';

/** Calls `onEnd` once the caller's key or token ends. Returns a function that stops watching. */
export function watchCaller(context: Context, { keyId, tokenLeftMs }: Caller, onEnd: () => void): () => void {
  const unwatch = watchKey(context, keyId, onEnd);
  const timer = tokenLeftMs === undefined ? undefined : setTimeout(onEnd, tokenLeftMs);
  return () => {
    clearTimeout(timer);
    unwatch();
  };
}
