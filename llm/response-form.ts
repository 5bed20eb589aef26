/** Answers of status 200, as compatible servers and what stands before them send them. */
import { ModelError } from '../core/model.ts';

/** How an answer comes: as a stream, or in one piece although a stream was asked for. Throws `invalid_request` for a web page. */
export function formOf(provider: string, { headers }: Pick<Response, 'headers'>): 'json' | 'events' {
  const type = headers.get('content-type') ?? '';
  if (type.includes('text/html')) {
    const hint = `is ${provider.toUpperCase()}_BASE_URL the address of its API?`;
    throw new ModelError('invalid_request', `${provider}: the server answered with a web page: ${hint}`);
  }
  return type.includes('application/json') ? 'json' : 'events';
}

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
