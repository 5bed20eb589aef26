/** Agents' names as tools, in characters that every MCP client takes. */

const MOST_CHARS = 60;

/** `run_` and the name, with other characters as `_`; the second agent of a name gets `_2`, in the given order. */
export function toolNames<T extends { name: string }>(agents: readonly T[]): Map<string, T> {
  const named = new Map<string, T>();
  for (const agent of agents) {
    const plain = `run_${agent.name.replaceAll(/[^A-Za-z0-9_-]/gu, '_')}`.slice(0, MOST_CHARS);
    let name = plain;
    for (let n = 2; named.has(name); n++) name = `${plain.slice(0, MOST_CHARS - `_${n}`.length)}_${n}`;
    named.set(name, agent);
  }
  return named;
}

/** Which agents can affect who is called `name`: those that may get it, and those that may take it before them. */
export function namesakes(name: string): { prefix: string; isExact: boolean } {
  // At full length, the end of a name gave way to its number.
  if (name.length >= MOST_CHARS) return { prefix: name.slice(0, MOST_CHARS - NUMBER_CHARS), isExact: false };
  return { prefix: name.replace(/(_\d+)+$/, ''), isExact: true };
}

const NUMBER_CHARS = '_9999'.length;
