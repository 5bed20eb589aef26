/** Selects the next of the queued nodes so that branches join again, however long each of them is. Pure. */
import type { NextNode } from './position.ts';

/** Successors of each node. Conditions are ignored: any edge may be taken. */
export type Ways = ReadonlyMap<string, readonly string[]>;

interface Paths {
  entryPoint: string;
  ways: Ways;
}

/** The first queued node that no other may still lead to. If two lead to each other, back edges are ignored. */
export function nextOf(queue: readonly NextNode[], { entryPoint, ways }: Paths): NextNode | undefined {
  if (queue.length < 2) return queue[0];
  const onward = withoutWaysBack(ways, entryPoint);
  const leads = (from: string, to: string): boolean => {
    const isCycle = reachedFrom(from, ways).has(to) && reachedFrom(to, ways).has(from);
    const taken = isCycle ? onward : ways;
    return reachedFrom(from, taken).has(to) && !reachedFrom(to, taken).has(from);
  };
  return queue.find(({ node }) => !queue.some((other) => leads(other.node, node)));
}

/** Removes back edges: those to a node that every path to their source passes through. */
function withoutWaysBack(ways: Ways, entryPoint: string): Ways {
  const around = new Map([...ways.keys()].map((node) => [node, reachedFrom(entryPoint, ways, node)]));
  const isOnward = (from: string, to: string) => around.get(to)?.has(from) === true;
  return new Map([...ways].map(([from, next]) => [from, next.filter((to) => isOnward(from, to))]));
}

function reachedFrom(start: string, ways: Ways, without?: string): Set<string> {
  const reached = new Set(start === without ? [] : [start]);
  for (const node of reached) {
    for (const next of ways.get(node) ?? []) if (next !== without) reached.add(next);
  }
  return reached;
}
