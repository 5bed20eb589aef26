import { impossible } from '../core/errors.ts';
import { PROVIDERS } from './providers.ts';

/** The planner for trials; it needs no key. */
export const OFFLINE = 'offline';

interface ModelName {
  provider: string;
  model: string;
}

/** Parses `provider/model`, a bare name, or `offline`. Throws `impossible` (422) with the names that work. */
export function parseModelName(name: string): ModelName {
  const found = findModelName(name);
  if (found) return found;
  throw impossible(`There is no model "${name}". ${names()}`);
}

/** Like `parseModelName`, but undefined for an unknown name. */
export function findModelName(name: string): ModelName | undefined {
  if (name === OFFLINE) return { provider: OFFLINE, model: OFFLINE };
  const [, before, model] = /^([^/\s]+)\/(\S+)$/.exec(name) ?? [];
  if (model && PROVIDERS.some((provider) => provider.name === before)) return { provider: before ?? '', model };
  const owner = PROVIDERS.find(({ bare }) => bare?.pattern.test(name));
  return owner && { provider: owner.name, model: name };
}

function names(): string {
  const full = PROVIDERS.map((provider) => `\`${provider.name}/<model>\``).join(', ');
  const bare = PROVIDERS.flatMap((provider) => provider.bare?.shown ?? []).join(', ');
  return `Use ${full}, a bare ${bare} name, or \`${OFFLINE}\`.`;
}
