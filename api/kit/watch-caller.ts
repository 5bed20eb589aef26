/** What stays open ends with the key, or the token, that it was opened with. */
import type { Caller } from '../../core/caller.ts';
import type { Context } from '../../modules/governance/context.ts';
import { watchKey } from '../../modules/runs/watch-key.ts';

/** Calls back once the caller may go on no longer. Gives the end of it. */
export function watchCaller(context: Context, { keyId, tokenLeftMs }: Caller, onEnd: () => void): () => void {
  const unwatch = watchKey(context, keyId, onEnd);
  const timer = tokenLeftMs === undefined ? undefined : setTimeout(onEnd, tokenLeftMs);
  return () => {
    clearTimeout(timer);
    unwatch();
  };
}
