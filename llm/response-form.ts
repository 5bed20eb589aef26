/** Answers of status 200, as compatible servers and what stands before them send them. */
import { ModelError } from '../core/model.ts';

/** How an answer comes: as a stream, or in one piece although a stream was asked for. Throws `invalid_request` for a web page. */
export function formOf(provider: string, { headers }: Pick<Response, 'headers'>): 'json' | 'events' {
  const type = headers.get('content-type') ?? '';
  if (type.includes('text/html')) throw notItsApi(provider, 'a web page');
  return type.includes('application/json') ? 'json' : 'events';
}

/** Where the server is no API of a model: asking again would change nothing. `answered` is what it answered with. */
export function notItsApi(provider: string, answered: string): ModelError {
  const hint = `is ${baseUrlVariable(provider)} the address of its API?`;
  return new ModelError('invalid_request', `${provider}: the server answered with ${answered}: ${hint}`);
}

/** The variable that says where a provider is. */
export const baseUrlVariable = (provider: string): string => `${provider.toUpperCase()}_BASE_URL`;

/** The object that an event or a whole answer holds. Throws `unavailable` for anything else: not with its text, which is content. */
export function parseEvent(provider: string, text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // Told below, like any other value that is no object.
  }
  throw new ModelError('unavailable', `${provider}: the server sent something else than a JSON object.`);
}
