/** The model providers: a new one is a file in `llm/providers/` and a line here (docs/extending.md). */
import type { Provider } from './provider.ts';
import { ANTHROPIC } from './providers/anthropic.ts';
import { OPENAI } from './providers/openai.ts';

/** In order of preference for the default model. */
export const PROVIDERS: readonly Provider[] = [ANTHROPIC, OPENAI];

/** The variable with a provider's key or address. */
export function variableOf({ name }: Pick<Provider, 'name'>, what: 'API_KEY' | 'BASE_URL'): string {
  return `${name.toUpperCase()}_${what}`;
}
