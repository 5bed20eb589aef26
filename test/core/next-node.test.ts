import assert from 'node:assert/strict';
import fc from 'fast-check';
import { leadsOf, nextOf } from '../../core/graph/next-node.ts';
import { cpuMs } from '../support/cpu-time.ts';

type Ways = ReadonlyMap<string, readonly string[]>;

const waiting = (names: readonly string[]) => names.map((node) => ({ node, from: ['s'] }));

/** The same choice as the definition has it: all ways are followed anew for each two nodes. */
function nextByDefinition(queue: readonly string[], ways: Ways, entryPoint: string): string | undefined {
  const around = new Map([...ways.keys()].map((node) => [node, reachedFrom(entryPoint, ways, node)]));
  const isOnward = (from: string, to: string) => around.get(to)?.has(from) === true;
  const onward = new Map([...ways].map(([from, next]) => [from, next.filter((to) => isOnward(from, to))]));
  const leads = (from: string, to: string): boolean => {
    const isCycle = reachedFrom(from, ways).has(to) && reachedFrom(to, ways).has(from);
    const taken = isCycle ? onward : ways;
    return reachedFrom(from, taken).has(to) && !reachedFrom(to, taken).has(from);
  };
  return queue.find((node) => !queue.some((other) => leads(other, node)));
}

function reachedFrom(start: string, ways: Ways, without?: string): Set<string> {
  const reached = new Set(start === without ? [] : [start]);
  for (const node of reached) {
    for (const next of ways.get(node) ?? []) if (next !== without) reached.add(next);
  }
  return reached;
}

const choices = fc.integer({ min: 1, max: 12 }).chain((size) => {
  const names = Array.from({ length: size }, (_, index) => `n${index}`);
  const some = fc.oneof(fc.subarray(names, { maxLength: Math.min(2, size) }), fc.subarray(names));
  return fc.record({
    ways: fc.tuple(...names.map((name) => fc.tuple(fc.constant(name), some))).map((all) => new Map(all)),
    // The agent version that a run continues with may lack a node that waits.
    queue: fc.shuffledSubarray([...names, 'unknown']),
  });
});

/** Milliseconds of CPU for choices among all the others of so many nodes, each of which leads to all the others. */
function cpuOfChoices(size: number): number {
  const names = Array.from({ length: size }, (_, index) => `n${index}`);
  const leads = leadsOf(new Map(names.map((name) => [name, names.filter((other) => other !== name)])), 'n0');
  const queue = waiting(names.slice(1));
  const rounds = [1, 2, 3].map(() => {
    const beforeMs = cpuMs();
    for (let choice = 0; choice < 200; choice += 1) nextOf(queue, leads);
    return cpuMs() - beforeMs;
  });
  return Math.min(...rounds);
}

describe('the next node of a graph', () => {
  it('is the first that waits and that no other which waits may still lead to', () => {
    fc.assert(
      fc.property(choices, ({ ways, queue }) => {
        const next = nextOf(waiting(queue), leadsOf(ways, 'n0'))?.node;
        assert.equal(next, nextByDefinition(queue, ways, 'n0'));
      }),
      { numRuns: 3000 },
    );
  });

  it('is chosen with work that grows with the pairs of nodes at most, however many ways there are', () => {
    const few = cpuOfChoices(25);
    const many = cpuOfChoices(100);
    // 16 times the pairs, 256 times those pairs' ways; a clock of CPU time counts in steps.
    assert.ok(many < 64 * Math.max(few, 1), `${many} ms for four times the nodes of ${few} ms`);
  });
});
