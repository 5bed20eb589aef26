/** Selects the next of the queued nodes so that branches join again, however long each of them is. Pure. */
import type { NextNode } from './position.ts';

/** Successors of each node. Conditions are ignored: any edge may be taken. */
type Ways = ReadonlyMap<string, readonly string[]>;

/** Whether one node may still lead to another. If two lead to each other, back edges are ignored. */
export type Leads = (from: string, to: string) => boolean;

/** The first queued node that no other may still lead to. */
export function nextOf(queue: readonly NextNode[], leads: Leads): NextNode | undefined {
  return queue.find(({ node }) => !queue.some((other) => leads(other.node, node)));
}

/** Follows all ways once, so that each choice in the graph only looks up what leads where. */
export function leadsOf(ways: Ways, entryPoint: string): Leads {
  const places = new Map([...ways.keys()].map((name, place) => [name, place]));
  const placesOf = (names: readonly string[]) => [...new Set(names)].flatMap((name) => places.get(name) ?? []);
  const next = [...ways.values()].map(placesOf);
  const reached = next.map((_ways, place) => reachedFrom(place, next));
  const onward = withoutWaysBack(next, places.get(entryPoint) ?? 0);
  const reachedOnward = onward.map((_ways, place) => reachedFrom(place, onward));
  // Bytes, not sets: processes keep this for each graph that they run.
  const leads = reached.map((row, from) =>
    row.map((isReached, to) => {
      if (!isReached) return 0;
      if (!reached[to]?.[from]) return 1;
      return reachedOnward[from]?.[to] && !reachedOnward[to]?.[from] ? 1 : 0;
    }),
  );
  return (from, to) => leads[places.get(from) ?? -1]?.[places.get(to) ?? -1] === 1;
}

/** Removes back edges: those to a node that every path to their source passes through. */
function withoutWaysBack(next: readonly number[][], entry: number): number[][] {
  const around = next.map((_ways, place) => reachedFrom(entry, next, place));
  return next.map((ways, from) => ways.filter((to) => around[to]?.[from] === 1));
}

function reachedFrom(start: number, next: readonly number[][], without?: number): Uint8Array {
  const reached = new Uint8Array(next.length);
  const found: number[] = [];
  const find = (place: number) => {
    if (place === without || reached[place]) return;
    reached[place] = 1;
    found.push(place);
  };
  find(start);
  for (const place of found) for (const to of next[place] ?? []) find(to);
  return reached;
}
