/** Which of the nodes that wait comes next: ways that have parted meet again, however long each of them is. Pure. */
import type { NextNode } from './position.ts';

/** The nodes that the edges of each node lead to. Conditions do not count: each edge may be taken. */
export type Ways = ReadonlyMap<string, readonly string[]>;

interface Paths {
  entryPoint: string;
  ways: Ways;
}

/** The first that none of the others may still lead to. Between two that lead to each other, ways back do not count. */
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

/** Without the edges of cycles that lead to a node through which every way to their own node has come. */
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
