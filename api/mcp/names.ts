/** What agents are called as tools: names that every MCP client takes. */

const MOST_CHARS = 60;

/** `run_` and the name, other characters as `_`; the second of a name is `_2`, in the order in which they come. */
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

/** Which agents decide what is called `name`: those that could be called so, and those that may take that name before them. */
export function namesakes(name: string): { prefix: string; isExact: boolean } {
  // At full length the end of a name has made way for its number.
  if (name.length >= MOST_CHARS) return { prefix: name.slice(0, MOST_CHARS - NUMBER_CHARS), isExact: false };
  return { prefix: name.replace(/(_\d+)+$/, ''), isExact: true };
}

const NUMBER_CHARS = '_9999'.length;
