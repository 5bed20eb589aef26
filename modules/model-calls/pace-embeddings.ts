/** Holds requests for embeddings to the rate limiter of their model, and to outages of its provider, like Drover's other calls. */
import { ModelError } from '../../core/model.ts';
import type { Database } from '../../db/database.ts';
import type { Probed } from '../../db/model-outages.ts';
import { chargeModelRate } from '../../db/model-rates.ts';
import { newId } from '../../lib/new-id.ts';
import { TextsRefused } from '../../llm/embed-each.ts';
import type { EmbeddingAnswer, EmbeddingRequest } from '../../llm/embed-texts.ts';
import { ownOutageGuard, throttle, type AwayProvider, type OutageGuard } from './throttle.ts';

/** A request that is not sent now, but may be later. */
export class NotSentNow extends Error {
  readonly waitMs: number;

  constructor(message: string, waitMs: number) {
    super(message);
    this.waitMs = waitMs;
  }
}

/**
 * Sends a request as soon as it may be, and tells others of an outage and of its end. Throws NotSentNow if it would have to wait
 * for long, else as `send` does.
 */
export async function withinPace<A extends EmbeddingAnswer>(
  db: Database,
  request: EmbeddingRequest,
  send: () => Promise<A>,
): Promise<A> {
  const guard = ownOutageGuard(db, newId());
  const { tokens, signal } = request;
  const admitted = await throttle(db, { resolved: request, tokens: () => tokens, guard, signal });
  if (!admitted.ok) throw new NotSentNow(admitted.message, waitOf(admitted));
  const { probed } = admitted;
  try {
    const answer = await send();
    // The probe's time ends without this, too: an answer that is paid for is not lost for it.
    await Promise.all([probed && guard.noteAnswered(probed), charge(db, request, answer)]).catch(() => undefined);
    return answer;
  } catch (error) {
    await noteFailure(guard, request, { error, probed }).catch(() => undefined);
    throw error;
  }
}

/** Charges the ration for what the provider has counted beyond the estimate. */
async function charge(
  db: Database,
  { rateLimiter, rates, tokens: estimated }: EmbeddingRequest,
  { tokens }: EmbeddingAnswer,
): Promise<void> {
  if (rateLimiter === null || !rates?.tokensPerMinute || tokens === undefined) return;
  await chargeModelRate(db, { rateLimiter, tokens: tokens - estimated, tokensPerMinute: rates.tokensPerMinute });
}

/** How soon it is tried again while a provider is away, in ms. */
const AWAY_MS = 5000;

function waitOf({ waitMs = AWAY_MS, away }: { waitMs?: number; away?: AwayProvider }): number {
  if (away?.nextAt === undefined) return waitMs;
  return Math.max(AWAY_MS, Date.parse(away.nextAt) - Date.now());
}

/** Any outcome but silence ends the wait of others for a probe of the provider; what was not sent leaves it to another one. */
async function noteFailure(
  guard: OutageGuard<unknown>,
  request: EmbeddingRequest,
  { error, probed }: { error: unknown; probed: Probed | undefined },
): Promise<void> {
  const { rateLimiter } = request;
  const isSilent = error instanceof ModelError && error.transient;
  if (rateLimiter !== null && (isSilent || request.isOverdue())) {
    const silence = isSilent ? error : new ModelError('timeout', `${request.provider} gave no answer in time.`);
    return guard.noteAway(request, { rateLimiter, error: silence, probed });
  }
  if (!probed) return;
  const isAnswered = error instanceof ModelError || error instanceof TextsRefused;
  await (isAnswered ? guard.noteAnswered(probed) : guard.leave());
}
