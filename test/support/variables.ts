import { readFileSync } from 'node:fs';
import { ROOT } from './repository.ts';

/** What reads the environment: configuration, and the part of it that is about models. */
const READERS = ['config.ts', 'llm/model-settings.ts'];

/** The variables that are read by their names; those of model providers come from the names of these. */
export function variablesRead(): string[] {
  const sources = READERS.map((file) => readFileSync(new URL(file, ROOT), 'utf8')).join('\n');
  return [...sources.matchAll(/\(env, '([A-Z_]+)'/g)].map((match) => match[1] ?? '');
}
