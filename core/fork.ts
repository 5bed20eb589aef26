/** Computes where a run starts that is forked from a point of another: conversation, turn, step. Pure. */
import { textOf, type FileBlock, type ImageBlock, type Message } from './content.ts';
import type { FieldError } from './errors.ts';
import type { TurnInput } from './events.ts';
import { beforeNode, withOutcome, type GraphState } from './graph/position.ts';
import { callsMade } from './denied-calls.ts';
import { isSettled, type CallState, type RunState } from './state.ts';

export interface ForkPoint {
  /** Messages that both runs share. */
  length: number;
  /** Model calls, and turns, before the point. */
  steps: number;
  turnCount: number;
  /** The open turn at the point. `begun`: its message is in the conversation. */
  turn: OpenTurn | null;
  /** The step with open calls: it is redone with its recorded answer. */
  redo: { run_id: string; step: number; settled: string[] } | null;
  /** Position in the agent's graph. */
  graph?: GraphState | null | undefined;
}

interface OpenTurn {
  id: string;
  input: TurnInput;
  begun: boolean;
  steps: number;
  toolCalls: number;
  /** It has read content that nobody vouches for. */
  untrusted?: true;
}

function taintOf({ untrusted = [] }: { untrusted?: readonly number[] }): { untrusted?: true } {
  return untrusted.length > 0 ? { untrusted: true } : {};
}

/**
 * The fork point for a run's state. Open calls cannot be carried over to another run; the point then precedes the model's
 * answer that requested them. A node whose call did not succeed is entered again.
 */
export function forkPoint(runId: string, state: RunState): ForkPoint {
  const { turn, calls, length, steps, turnCount, replay, graph } = state;
  if (!turn) return { length, steps, turnCount, turn: null, redo: null };
  const { id, input, begun } = turn;
  const open = { id, input, begun, steps: turn.steps, toolCalls: callsMade(state), ...taintOf(turn) };
  const before = { length, steps, turnCount: turnCount - 1, turn: open };
  const isOfNode = graph?.open === true && graph.ordinal !== undefined;
  if (!calls.some(isOfNode ? hasGivenNothing : isOpen)) {
    const inherited = replay?.redo ?? null;
    const redo = inherited && { run_id: inherited.runId, step: inherited.step, settled: inherited.settled };
    return { ...before, redo, graph: isOfNode ? withOutcomeOf(graph, calls) : graph };
  }
  // What the user has said since then is read again.
  const end = endWithout(state.steered ?? [], length);
  const settled = calls.filter(({ status }) => status === 'succeeded' || status === 'failed').map((call) => call.id);
  return {
    ...before,
    // The answer and the message of its calls' results.
    length: end - 2,
    steps: steps - 1,
    turn: {
      ...open,
      steps: turn.steps - 1,
      toolCalls: open.toolCalls - calls.filter(({ status }) => status !== 'denied').length,
    },
    // The node requests its call again; what the call may have done is in the record.
    redo: { run_id: runId, step: steps, settled: isOfNode ? [] : settled },
    graph: isOfNode ? beforeNode(graph) : graph,
  };
}

/** The length of a conversation without its last messages that came in the middle of a turn. */
function endWithout(steered: readonly number[], length: number): number {
  return steered.includes(length - 1) ? endWithout(steered, length - 1) : length;
}

function hasGivenNothing({ status }: CallState): boolean {
  return status !== 'succeeded';
}

/** The fork does not have the call, but its outcome completes the node. */
function withOutcomeOf(graph: GraphState, [call]: readonly CallState[]): GraphState {
  return call ? withOutcome(graph, { status: 'succeeded', ordinal: graph.ordinal, tool_call_id: call.id }) : graph;
}

/** Calls that a person may still settle count as open. */
function isOpen(call: CallState): boolean {
  return !isSettled(call) || (call.status === 'unknown' && call.asked !== 'settled');
}

/**
 * The fork point with another conversation. If it ends with a user's message, that is to be answered: by the open turn, or by
 * a new one that has its message already.
 */
export function withMessages(state: RunState, messages: readonly Message[]): ForkPoint {
  const { turn, length, steps, turnCount } = state;
  if (turn && !turn.begun) {
    const { id, input, begun } = turn;
    return { length, steps, turnCount: turnCount - 1, turn: { id, input, begun, steps: 0, toolCalls: 0 }, redo: null };
  }
  const isAsked = messages.at(-1)?.role === 'user';
  if (!isAsked) return { length, steps, turnCount, turn: null, redo: null };
  return {
    length,
    steps,
    turnCount: turn ? turnCount - 1 : turnCount,
    turn: {
      id: turn?.id ?? '',
      input: turn ? inputOf(turn, messages) : asInput(messages.findLast(isSaid)),
      begun: true,
      steps: turn?.steps ?? 0,
      toolCalls: callsMade(state),
      ...(turn && taintOf(turn)),
    },
    redo: null,
    graph: state.graph && withoutOutputs(state.graph),
  };
}

/** The fork point, whose turn says of its files for which of them nobody vouches. */
export function withTrustOfFiles(point: ForkPoint, untrusted: ReadonlySet<string> | undefined): ForkPoint {
  const { turn } = point;
  if (!turn?.input.attachments || !untrusted) return point;
  const attachments = turn.input.attachments.map((each) =>
    each.type === 'file' && untrusted.has(each.file_id) ? { ...each, trust: 'untrusted' as const } : each,
  );
  return { ...point, turn: { ...turn, input: { ...turn.input, attachments } } };
}

/** Removes outputs of nodes, which another conversation does not have. */
function withoutOutputs(graph: GraphState): GraphState {
  const before = graph.open && graph.ordinal !== undefined ? beforeNode(graph) : graph;
  return { ...before, from: [], outcomes: {}, queue: before.queue.map(({ node }) => ({ node, from: [] })) };
}

/** What the open turn is asked; the first that is said behind the last answer, if the messages have another question. */
function inputOf({ input }: Pick<OpenTurn, 'input'>, messages: readonly Message[]): TurnInput {
  const asks = (block: Message['content'][number]) => block.type === 'text' && block.text === input.message;
  if (messages.some(({ role, content }) => role === 'user' && content.some(asks))) return input;
  const answer = messages.findLastIndex((message) => message.role === 'assistant' && useIds(message).length === 0);
  const { output_schema, metadata } = input;
  return {
    ...asInput(messages.slice(answer + 1).find(isSaid)),
    ...(output_schema && { output_schema }),
    ...(metadata && { metadata }),
  };
}

function isSaid({ role, content }: Message): boolean {
  return role === 'user' && textOf(content) !== '';
}

function asInput(asked: Message | undefined): TurnInput {
  const images = (asked?.content ?? []).filter(
    (block): block is ImageBlock | FileBlock => block.type === 'image' || block.type === 'file',
  );
  return {
    message: textOf(asked?.content ?? []),
    ...(images.length > 0 && { attachments: images }),
  };
}

/** A run's messages: segments of the lineages it builds on. */
interface Segments {
  lineage: string;
  lineage_base: { lineage: string; length: number }[];
  length: number;
}

/** The segments that make up a run's first `length` messages, as the base of a forked run. */
export function segmentsOf(run: Segments, length: number): Segments['lineage_base'] {
  const all = [...run.lineage_base, { lineage: run.lineage, length: run.length }];
  return all.flatMap((segment, index) => {
    const start = all[index - 1]?.length ?? 0;
    return start >= length ? [] : [{ lineage: segment.lineage, length: Math.min(segment.length, length) }];
  });
}

/**
 * Faults of a conversation, with their paths. It must begin with the user; every tool use needs its result in the next
 * message, and every result its tool use in the message before.
 */
export function messageFaults(messages: readonly Message[], path: string): FieldError[] {
  const faults: FieldError[] = [];
  const seen = new Set<string>();
  if (messages[0] && messages[0].role !== 'user') faults.push({ path: `${path}.0.role`, message: 'must be user' });
  for (const [index, message] of messages.entries()) {
    const at = `${path}.${index}.content`;
    const results = resultIds(message);
    const asked = useIds(messages[index - 1]);
    for (const id of useIds(message)) {
      if (seen.has(id)) faults.push({ path: at, message: `has a second tool_use with the id ${id}` });
      seen.add(id);
      if (!resultIds(messages[index + 1]).includes(id)) {
        faults.push({ path: at, message: `has a tool_use ${id} without its tool_result in the next message` });
      }
    }
    for (const id of results) {
      if (!asked.includes(id)) {
        faults.push({ path: at, message: `has a tool_result ${id} without its tool_use in the message before` });
      }
    }
    if (new Set(results).size < results.length) faults.push({ path: at, message: 'has two results of one tool_use' });
  }
  return faults;
}

function useIds(message: Message | undefined): string[] {
  return blocksOf(message).flatMap((block) => (block.type === 'tool_use' ? [block.id] : []));
}

function resultIds(message: Message | undefined): string[] {
  return blocksOf(message).flatMap((block) => (block.type === 'tool_result' ? [block.tool_use_id] : []));
}

function blocksOf(message: Message | undefined): Message['content'][number][] {
  return message ? [...message.content] : [];
}
