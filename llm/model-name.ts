import { impossible } from '../core/errors.ts';
import { PROVIDERS } from './providers.ts';

/** The planner for trials, which needs no key. */
export const OFFLINE = 'offline';

/** `provider/model`, a bare name, or `offline`. Throws `impossible` (422) with the names that work. */
export function parseModelName(name: string): { provider: string; model: string } {
  if (name === OFFLINE) return { provider: OFFLINE, model: OFFLINE };
  const [, before, model] = /^([^/\s]+)\/(\S+)$/.exec(name) ?? [];
  if (model && PROVIDERS.some((provider) => provider.name === before)) return { provider: before ?? '', model };
  const owner = PROVIDERS.find(({ bare }) => bare?.pattern.test(name));
  if (owner) return { provider: owner.name, model: name };
  throw impossible(`There is no model "${name}". ${names()}`);
}

function names(): string {
  const full = PROVIDERS.map((provider) => `\`${provider.name}/<model>\``).join(', ');
  const bare = PROVIDERS.flatMap((provider) => provider.bare?.shown ?? []).join(', ');
  return `Use ${full}, a bare ${bare} name, or \`${OFFLINE}\`.`;
}
