/** What agents are called as tools: names that every MCP client takes. */

const MOST_CHARS = 60;

/** `run_` and the name, other characters as `_`; the second of a name is `_2`, in the order in which they come. */
export function toolNames<T extends { name: string }>(agents: readonly T[]): Map<string, T> {
  const named = new Map<string, T>();
  for (const agent of agents) {
    const plain = `run_${agent.name.replaceAll(/[^A-Za-z0-9_-]/g, '_')}`.slice(0, MOST_CHARS);
    let name = plain;
    for (let n = 2; named.has(name); n++) name = `${plain.slice(0, MOST_CHARS - `_${n}`.length)}_${n}`;
    named.set(name, agent);
  }
  return named;
}
