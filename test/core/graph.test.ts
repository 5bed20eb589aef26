import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { RunEvent } from '../../core/events.ts';
import { compileGraph } from '../../core/graph/compile.ts';
import type { WorkflowGraph } from '../../core/graph/definition.ts';
import { completedNode, enteredNode } from '../../core/graph/graph-state.ts';
import { graphStep, planOf } from '../../core/graph/graph-step.ts';
import type { GraphState } from '../../core/graph/position.ts';

type Entered = Extract<RunEvent, { type: 'node.entered' }>;
type Completed = Extract<RunEvent, { type: 'node.completed' }>;
type Ways = Record<string, string[]>;

const graphOf = (ways: Ways): WorkflowGraph => ({
  entry_point: 's',
  nodes: Object.keys(ways).map((name) => ({ name, type: 'router', config: {} })),
  edges: Object.entries(ways).map(([from, to]) => ({ from, to })),
});

/** Visits a graph whose nodes lead where `choose` says; `seen` is told who waits when a node is entered. */
function walk(
  ways: Ways,
  choose = (next: string[], _node: string, _visit: number) => next,
  seen = (_node: string, _waiting: string[]) => {},
): string[] {
  const graph = planOf(graphOf(ways));
  const visited: string[] = [];
  let at: GraphState | null = null;
  while (visited.length < 60 && (at === null || at.queue.length > 0)) {
    const step = graphStep({ turn: null, modelCall: null, graph: at }, { maxSteps: 20, graph });
    if (step.kind !== 'enter_node') throw new Error(`a node is to be entered, not ${step.kind}`);
    const { node, from } = step.next;
    const visit = (at?.visits[node] ?? 0) + 1;
    const entered = { node, type: 'router', visit, from, length: 1 } as const;
    at = enteredNode(at, { payload: entered } as Entered);
    seen(
      node,
      at.queue.map((each) => each.node),
    );
    const next = choose(ways[node] ?? [], node, visit);
    at = completedNode(at, { payload: { node, visit, status: 'succeeded', next, length: 1 } } as Completed);
    visited.push(node);
  }
  return visited;
}

/** Nodes n0, n1, …, each with ways to later ones; every one can be reached from `s`. */
const acyclic = fc
  .array(fc.array(fc.nat(), { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 12 })
  .chain((places) => {
    const names = ['s', ...places.map((_, index) => `n${index}`)];
    const ways = new Map(names.map((name) => [name, new Set<string>()]));
    for (const [index, froms] of places.entries())
      for (const from of froms) ways.get(names[from % (index + 1)] ?? 's')?.add(`n${index}`);
    const shuffled = [...ways].map(([name, next]) =>
      fc.shuffledSubarray([...next], { minLength: next.size }).map((each): [string, string[]] => [name, each]),
    );
    return fc.tuple(...shuffled).map((each): Ways => Object.fromEntries(each));
  });

function isReached(ways: Ways, from: string, to: string): boolean {
  return (ways[from] ?? []).some((next) => next === to || isReached(ways, next, to));
}

describe('a graph whose ways part', () => {
  it('has each node visited once where there is no cycle, after all that wait and can lead to it', () => {
    fc.assert(
      fc.property(acyclic, fc.infiniteStream(fc.nat(3)), (ways, picks) => {
        const choose = (next: string[]) => next.filter(() => picks.next().value !== 0);
        const visited = walk(ways, choose, (node, waiting) =>
          assert.deepEqual(
            waiting.filter((other) => isReached(ways, other, node)),
            [],
          ),
        );
        assert.equal(new Set(visited).size, visited.length, visited.join());
      }),
      { numRuns: 500 },
    );
  });

  it('has them meet again however long each is, and in whatever order they are named', () => {
    const uneven = { s: ['a1', 'b1'], a1: ['a2'], a2: ['a3'], a3: ['j'], b1: ['j'], j: [] };
    assert.deepEqual(walk(uneven), ['s', 'a1', 'b1', 'a2', 'a3', 'j']);
    const nested = { s: ['a', 'b'], a: ['a1', 'a2'], a1: ['j'], a2: ['j'], j: ['k'], b: ['k'], k: [] };
    assert.deepEqual(walk(nested), ['s', 'a', 'b', 'a1', 'a2', 'j', 'k']);
    assert.deepEqual(walk({ s: ['b', 'a'], a: ['b'], b: [] }), ['s', 'a', 'b']);
  });

  it('has them meet after a way that goes round, and within a cycle', () => {
    const loops = { s: ['a', 'b'], a: ['a', 'j'], b: ['j'], j: [] };
    const twice = (next: string[], node: string, visit: number) => (node === 'a' ? [visit < 3 ? 'a' : 'j'] : next);
    assert.deepEqual(walk(loops, twice), ['s', 'a', 'b', 'a', 'a', 'j']);
    const again = { s: ['a1', 'b1'], a1: ['a2'], a2: ['a3'], a3: ['j'], b1: ['j'], j: ['s'] };
    const once = (next: string[], node: string, visit: number) => (node === 'j' && visit > 1 ? [] : next);
    const round = ['s', 'a1', 'b1', 'a2', 'a3', 'j'];
    assert.deepEqual(walk(again, once), [...round, ...round]);
  });

  it('goes on in their order where two that wait lead to each other', () => {
    const ways = { s: ['b', 'a'], a: ['b'], b: ['a'] };
    assert.deepEqual(walk(ways, (next, _node, visit) => (visit > 1 ? [] : next)).slice(0, 3), ['s', 'b', 'a']);
  });
});

describe('a graph with the bare name of a channel', () => {
  const faultsOf = (prompt: string, condition: string) => {
    const compiled = compileGraph({
      entry_point: 'a',
      nodes: [
        { name: 'a', type: 'router', config: {}, writes: { order: '{{input}}' } },
        { name: 'b', type: 'human', config: { prompt } },
      ],
      edges: [{ from: 'a', to: 'b', condition }],
    });
    return compiled.ok ? [] : compiled.faults.map(({ message }) => message);
  };

  it('is told how the channel is read, and another unknown name is not', () => {
    const meant = 'Unknown variable: order; did you mean state.order?';
    assert.deepEqual(faultsOf('{{order.total}}', 'order == "x"'), [meant, `{{order.total}}: ${meant}`]);
    assert.deepEqual(faultsOf('{{state.order}}', 'orders == "x"'), ['Unknown variable: orders']);
    assert.deepEqual(faultsOf('{{state.order}} {{state.custom.order}}', 'state.order == "x"'), []);
  });
});
