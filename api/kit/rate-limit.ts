import { DroverError } from '../../core/errors.ts';
import { rateHeaders, type Rate } from '../../core/rate-limits.ts';
import type { RateCounter } from '../../modules/tenants/rate-counter.ts';
import type { ApiContext } from './state.ts';

/** Counts a request against these rates, and puts what is left into the answer's headers. Throws 429 beyond one. */
export function holdToRates(ctx: ApiContext, counter: RateCounter, rates: readonly Rate[]): Promise<void> {
  return countAgainst(counter, rates, { tell: tellIn(ctx) });
}

/** Counts `times` more messages of a request that was counted already: the headers tell what is left after the last of them. */
export function holdMoreToRates(
  ctx: ApiContext,
  counter: RateCounter,
  { rates, times }: { rates: readonly Rate[]; times: number },
): Promise<void> {
  ctx.remove('RateLimit-Policy');
  ctx.remove('RateLimit');
  return countAgainst(counter, rates, { times, tell: tellIn(ctx) });
}

type Tell = (headers: ReturnType<typeof rateHeaders>) => void;

function tellIn(ctx: ApiContext): Tell {
  return ({ policy, state }) => {
    ctx.append('RateLimit-Policy', policy);
    ctx.append('RateLimit', state);
  };
}

/** The same for a message on a connection, which has no answer of its own. */
export async function countAgainst(
  counter: RateCounter,
  rates: readonly Rate[],
  { tell, times }: { tell?: Tell; times?: number } = {},
): Promise<void> {
  for (const rate of rates) {
    const { policy, subject, quota, windowSeconds } = rate;
    const { used, resetMs } = await counter.add({ name: `${policy}:${subject}`, windowSeconds, quota, times });
    const resetSeconds = Math.max(1, Math.ceil(resetMs / 1000));
    tell?.(rateHeaders({ ...rate, used, resetSeconds }));
    if (used <= quota) continue;
    throw new DroverError('rate-limited', 429, `${TOO_MANY[policy]}: ${quota} in ${windowSeconds} s are the limit.`, {
      retryAfterSeconds: resetSeconds,
      extra: { policy, limit: quota, window_seconds: windowSeconds },
    });
  }
}

const TOO_MANY: Record<Rate['policy'], string> = {
  tenant: 'Too many requests of this tenant',
  key: 'Too many requests with this key',
  chats: 'Too many messages of this user',
  executes: 'Too many executions in this session',
};
