/** The rate limiters of models that all workers share. See `db/functions/model-rates.sql`. */
import type { Database } from './database.ts';

/** What a credential permits for a model; null if it is not known. */
export interface ModelRates {
  requestsPerMinute: number | null;
  tokensPerMinute: number | null;
}

/** How long nobody is to ask the model yet, in ms; 0: it may be asked. */
export async function readModelBackOff(db: Database, rateLimiter: string): Promise<number> {
  return numberFrom(db, 'model_back_off_ms($1)', [rateLimiter]);
}

/** Lets nobody ask the model for so long, in all workers; a longer time that was set stays. */
export async function backOffModelRate(db: Database, rateLimiter: string, ms: number): Promise<void> {
  await db.call({
    name: 'back_off_model_rate',
    text: 'select back_off_model_rate($1, $2)',
    values: [rateLimiter, Math.ceil(ms)],
  });
}

/** Takes a request out of what the rates permit; else answers after how many ms to ask again. */
export async function acquireModelRate(
  db: Database,
  request: { rateLimiter: string; tokens: number; rates: ModelRates },
): Promise<number> {
  const { rateLimiter, tokens, rates } = request;
  const values = [rateLimiter, tokens, rates.requestsPerMinute, rates.tokensPerMinute];
  return numberFrom(db, 'acquire_model_rate($1, $2, $3, $4)', values);
}

/** Takes what an answer has used beyond its request out of what the rates permit. */
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
