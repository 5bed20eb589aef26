/** Evaluates JSONata in a process of its own. */
import jsonata from 'jsonata';
import { evaluateApart } from './apart/evaluate-apart.ts';
import { messageOf } from './apart/message-of.ts';

/** The result as JSON (null for none), or the fault. */
type Evaluated = { result: unknown } | { fault: 'too-slow' | 'failed'; message: string };

interface Expression {
  text: string;
  data: unknown;
  tenantId: string;
}

/**
 * Evaluates a JSONata 2 expression over JSON, for at most a second; a tenant's run one by one. Resolves within
 * `timeoutMs`, however many others wait, if need be with `too-slow`, and never throws.
 */
export async function evaluateJsonata({ text, data, tenantId }: Expression, timeoutMs: number): Promise<Evaluated> {
  const work = { jsonata: { text, json: JSON.stringify(data ?? null) } };
  const answer = await evaluateApart({ work, tenantId }, timeoutMs);
  return 'json' in answer ? { result: JSON.parse(answer.json) as unknown } : answer;
}

/** The error of an expression; undefined if it can be evaluated. */
export function jsonataFault(text: string): string | undefined {
  try {
    jsonata(text);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}
