/** The gates that all workers share on their way to models. See `db/migrations/0012-model-gates.ts`. */
import type { Database } from './database.ts';

/** What a credential permits for a model; null where it is not known. */
export interface ModelRates {
  requestsPerMinute: number | null;
  tokensPerMinute: number | null;
}

/** How long the gate is still shut, in ms; 0: it is open. */
export async function readModelBackOff(db: Database, gate: string): Promise<number> {
  return numberFrom(db, 'model_gate_ms($1)', [gate]);
}

/** Shuts the gate for all workers; one that is shut for longer stays so. */
export async function backOffModelRate(db: Database, gate: string, ms: number): Promise<void> {
  await db.call({
    name: 'shut_model_gate',
    text: 'select shut_model_gate($1, $2)',
    values: [gate, Math.ceil(ms)],
  });
}

/** Takes a request out of what the rates permit; else answers after how many ms to ask again. */
export async function acquireModelRate(
  db: Database,
  request: { gate: string; tokens: number; rates: ModelRates },
): Promise<number> {
  const { gate, tokens, rates } = request;
  const values = [gate, tokens, rates.requestsPerMinute, rates.tokensPerMinute];
  return numberFrom(db, 'pass_model_gate($1, $2, $3, $4)', values);
}

/** Takes what an answer has used beyond its request out of what the rates permit. */
export async function chargeModelRate(
  db: Database,
  answer: { gate: string; tokens: number; tokensPerMinute: number },
): Promise<void> {
  await db.call({
    name: 'charge_model_gate',
    text: 'select charge_model_gate($1, $2, $3)',
    values: [answer.gate, answer.tokens, answer.tokensPerMinute],
  });
}

async function numberFrom(db: Database, call: string, values: readonly unknown[]): Promise<number> {
  const [name = ''] = call.split('(');
  const [row] = await db.call<{ ms: number }>({ name, text: `select ${call} as ms`, values });
  return row?.ms ?? 0;
}
