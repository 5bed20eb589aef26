/** Ends long-lived connections together with their key or token. */
import type { Caller } from '../../core/caller.ts';
import { unauthorized } from '../../core/errors.ts';
import type { Context } from '../../modules/governance/context.ts';
import { watchKey } from '../../modules/runs/watch-key.ts';
import type { Authenticator } from '../../modules/tenants/authenticate-key.ts';

export interface CallerWatch {
  /** To be awaited before each request on the connection. Throws 401 once the key or token has ended. */
  check: () => Promise<void>;
  stop: () => void;
}

/** The longest time that a timer can be set for, in ms. */
const LONGEST_MS = 2 ** 31 - 1;

/** Calls `onEnd` once the caller's key or token ends. At the known end of a key it is looked up again: that may have been put off. */
export function watchCaller(
  { context, authenticator }: { context: Context; authenticator: Authenticator },
  { keyId, keyUntilMs = Infinity, tokenUntilMs = Infinity }: Caller,
  onEnd: () => void,
): CallerWatch {
  let untilMs = Math.min(keyUntilMs, tokenUntilMs);
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  const isValid = async () => {
    if (performance.now() < untilMs) return true;
    if (performance.now() >= tokenUntilMs) return false;
    const key = await authenticator.byKeyId(keyId);
    if (!key) return false;
    untilMs = Math.min(key.keyUntilMs ?? Infinity, tokenUntilMs);
    return true;
  };
  const arm = () => {
    if (isStopped || untilMs === Infinity) return;
    timer = setTimeout(() => void lookAgain(), Math.min(untilMs - performance.now(), LONGEST_MS));
  };
  const lookAgain = async () => {
    // Nobody vouches for a key that cannot be looked up.
    if (await isValid().catch(() => false)) arm();
    else if (!isStopped) onEnd();
  };
  const unwatch = watchKey(context, keyId, onEnd);
  arm();
  return {
    async check() {
      if (await isValid()) return;
      onEnd();
      throw unauthorized('The key or token has ended.');
    },
    stop() {
      isStopped = true;
      clearTimeout(timer);
      unwatch();
    },
  };
}
