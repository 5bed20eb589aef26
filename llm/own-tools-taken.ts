import { PROVIDERS } from './providers.ts';

const TAKING: ReadonlySet<string> = new Set(PROVIDERS.filter((each) => each.takesOwnTools).map(({ name }) => name));

/** Whether requests of a provider may have `thinking_tokens` and `server_tools`. */
export function takesOwnTools(provider: string): boolean {
  return TAKING.has(provider);
}
