/** Reads and checks environment variables: an error names the variable and what was expected. */

/** A mistake in the environment: one line with the variable and what was expected. Never holds a secret's value. */
export class ConfigError extends Error {
  readonly variable: string;

  constructor(variable: string, problem: string, expected: string) {
    super(`${variable} ${problem}: expected ${expected}.`);
    this.name = 'ConfigError';
    this.variable = variable;
  }
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** The trimmed value; undefined if empty. */
export function read(env: Environment, name: string): string | undefined {
  const value = env[name]?.trim();
  return value === '' ? undefined : value;
}

export function readPort(env: Environment, name: string, fallback: number): number {
  return readInteger(env, name, { fallback, min: 0, max: 65_535 });
}

export function readInteger(
  env: Environment,
  name: string,
  limits: { fallback: number; min: number; max: number },
): number {
  const value = read(env, name);
  return value === undefined ? limits.fallback : parseInteger(name, value, limits);
}

/** `entry` is the whole setting that the value is a part of. */
export function parseInteger(
  name: string,
  value: string,
  { min, max, entry }: { min: number; max: number; entry?: string },
): number {
  const parsed = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
  if (!(parsed >= min && parsed <= max)) {
    const problem = entry === undefined ? `is ${quote(value)}` : `has ${quote(entry)}`;
    throw new ConfigError(name, problem, `a whole number from ${min} to ${max}`);
  }
  return parsed;
}

export function readHttpUrl(env: Environment, name: string): string | undefined {
  const value = read(env, name);
  if (value !== undefined && !isHttpUrl(value)) {
    throw new ConfigError(name, 'is not an HTTP URL', 'http://host/path or https://host/path');
  }
  return value;
}

export const isHttpUrl = (text: string): boolean => /^https?:\/\//.test(text) && URL.canParse(text);

/**
 * Reads a key that is sent in a header of its own or in `Authorization`, so no spaces and only ASCII. Errors never
 * repeat it.
 */
export function readKey(env: Environment, name: string): string | undefined {
  const value = read(env, name);
  if (value !== undefined && !/^[\x21-\x7e]+$/.test(value)) {
    throw new ConfigError(
      name,
      'has a space, a line end or a character beyond ASCII',
      'printable ASCII without spaces',
    );
  }
  return value;
}

export function readList(env: Environment, name: string): readonly string[] {
  const entries = (read(env, name) ?? '').split(',').map((entry) => entry.trim());
  return Object.freeze(entries.filter((entry) => entry !== ''));
}

/** A repeated name: either value may be meant. */
export function expectOnce(variable: string, names: readonly string[]): void {
  const twice = names.find((name, n) => names.indexOf(name) !== n);
  if (twice !== undefined) throw new ConfigError(variable, `has ${quote(twice)} twice`, 'each name once');
}

/** Kubernetes sets variables prefixed with a service's name. */
const OF_A_SERVICE = /SERVICE_(HOST|PORT)|PORT(_\d+_|$)/;

/** Set variables with this prefix whose rest is not in `known`: nothing reads them. */
export function unreadVariables(
  env: Environment,
  { prefix, known }: { prefix: string; known: readonly string[] },
): readonly string[] {
  const names = Object.keys(env).filter((name) => name.startsWith(prefix) && read(env, name) !== undefined);
  const rests = names.map((name) => name.slice(prefix.length));
  const unread = rests.filter((rest) => !known.includes(rest) && !OF_A_SERVICE.test(rest));
  return Object.freeze(unread.map((rest) => prefix + rest).toSorted());
}

/** Quotes a value in one line of at most 80 characters. */
export function quote(value: string): string {
  const shown = JSON.stringify(value);
  return shown.length > 80 ? `${shown.slice(0, 79)}…` : shown;
}
