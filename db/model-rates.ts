/** Rate limiters of models, shared by all workers. See `db/functions/model-rates.sql`. */
import type { Database } from './database.ts';

/** What a credential permits for a model; null if unknown. */
export interface ModelRates {
  requestsPerMinute: number | null;
  tokensPerMinute: number | null;
}

/** Remaining back-off of a model, in ms; 0: it may be called. */
export async function readModelBackOff(db: Database, rateLimiter: string): Promise<number> {
  return numberFrom(db, 'model_back_off_ms($1)', [rateLimiter]);
}

/** Makes all workers back off from a model for this long; does not shorten a longer back-off. */
export async function backOffModelRate(db: Database, rateLimiter: string, ms: number): Promise<void> {
  await db.call({
    name: 'back_off_model_rate',
    text: 'select back_off_model_rate($1, $2)',
    values: [rateLimiter, Math.ceil(ms)],
  });
}

/** Takes a request from the permitted rates; otherwise returns in how many ms to try again. */
export async function acquireModelRate(
  db: Database,
  request: { rateLimiter: string; tokens: number; rates: ModelRates },
): Promise<number> {
  const { rateLimiter, tokens, rates } = request;
  const values = [rateLimiter, tokens, rates.requestsPerMinute, rates.tokensPerMinute];
  return numberFrom(db, 'acquire_model_rate($1, $2, $3, $4)', values);
}

/** Takes an answer's additional usage from the permitted rates. */
export async function chargeModelRate(
  db: Database,
  answer: { rateLimiter: string; tokens: number; tokensPerMinute: number },
): Promise<void> {
  await db.call({
    name: 'charge_model_rate',
    text: 'select charge_model_rate($1, $2, $3)',
    values: [answer.rateLimiter, answer.tokens, answer.tokensPerMinute],
  });
}

async function numberFrom(db: Database, call: string, values: readonly unknown[]): Promise<number> {
  const [name = ''] = call.split('(');
  const [row] = await db.call<{ ms: number }>({ name, text: `select ${call} as ms`, values });
  return row?.ms ?? 0;
}
