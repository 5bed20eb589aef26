/** Nodes of a graph on paper: they are entered as decided, and lead to whatever the tape says. */
import assert from 'node:assert/strict';
import { completeNode, enterNode } from '../../core/decision-events/nodes.ts';
import { reachStepLimit } from '../../core/decision-events/model-calls.ts';
import type { NewEvent } from '../../core/events.ts';
import { limitReached, type GraphPlan } from '../../core/graph/graph-step.ts';
import type { NextNode } from '../../core/graph/position.ts';
import type { RunState } from '../../core/state.ts';

export interface OnPaper {
  state: () => RunState;
  emit: (...events: NewEvent[]) => void;
  pick: (n: number) => number;
  limits: { maxSteps: number; graph: GraphPlan };
  /** Asks for the call of a node. */
  ask: (step: number) => void;
}

export function enter({ state, emit, limits, ask }: OnPaper, { node, from }: NextNode): void {
  const before = state();
  const { turn, unread = [], length } = before;
  assert.ok(turn && !before.graph?.open, 'a node is entered while another is open');
  const type = limits.graph.types[node] ?? 'router';
  const read = length + (turn.begun ? 0 : unread.length + 1);
  if (type === 'tool' || type === 'human') {
    emit(...enterNode(before, { node, type, from, ordinal: read + 1, length: read + 2 }));
    return ask(state().steps);
  }
  const given = type === 'llm' && from.length > 0 ? 1 : 0;
  emit(...enterNode(before, { node, type, from, length: read + given }));
}

export function complete({ state, emit, pick, limits }: OnPaper): void {
  const before = state();
  const { graph, turn, length } = before;
  assert.ok(graph?.open && turn, 'a node is completed that is not open');
  const names = Object.keys(limits.graph.types);
  const isOver = !limits.graph.asksModels && limitReached(before, limits) !== undefined;
  const picked = pick(4) === 3 ? names.slice(0, 2) : [names[pick(names.length)] ?? ''];
  const next = isOver || pick(5) === 4 ? [] : picked;
  const ends = isOver || (next.length === 0 && graph.queue.length === 0);
  const custom = pick(4) === 3 ? { custom: { channel: turn.number } } : {};
  if (isOver && next.length === 0) emit(...reachStepLimit(before, { last: true }, limits.maxSteps));
  const said = turn.answer?.ordinal;
  const answer = ends ? { ends: true as const, answer: said ?? length } : {};
  const outcome = { status: 'succeeded' as const, ...(graph.ordinal !== undefined && { ordinal: graph.ordinal }) };
  const more = ends && said === undefined ? 1 : 0;
  emit(...completeNode(state(), { ...outcome, next, ...answer, ...custom, length: length + more }));
}
