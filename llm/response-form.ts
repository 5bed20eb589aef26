/** Checks answers of status 200 from compatible servers and the proxies before them. */
import { ModelError } from '../core/model.ts';

/** Whether an answer is a stream or one piece, which may come even for a stream. Throws `invalid_request` for a web page. */
export function formOf(provider: string, { headers }: Pick<Response, 'headers'>): 'json' | 'events' {
  const type = headers.get('content-type') ?? '';
  if (type.includes('text/html')) throw notItsApi(provider, 'a web page');
  return type.includes('application/json') ? 'json' : 'events';
}

/** The error for a server that is no model API: a retry would not help. `answered` says what it sent. */
export function notItsApi(provider: string, answered: string): ModelError {
  const hint = `is ${baseUrlVariable(provider)} the address of its API?`;
  return new ModelError('invalid_request', `${provider}: the server answered with ${answered}: ${hint}`);
}

/** The variable with a provider's address. */
export const baseUrlVariable = (provider: string): string => `${provider.toUpperCase()}_BASE_URL`;

/** The object in an event or whole answer. Throws `unavailable` for anything else, without its text, which is content. */
export function parseEvent(provider: string, text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // Reported below, like any other value that is no object.
  }
  throw new ModelError('unavailable', `${provider}: the server sent something else than a JSON object.`);
}
