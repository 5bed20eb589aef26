/** Follows the graph of a run's agent: enters nodes, completes them, and takes the edges that their outputs select. */
import { setImmediate } from 'node:timers/promises';
import { beginningOf, cleanJson, isDeeperThan, type ToolUseBlock } from '../../../core/content.ts';
import { completeNode, enterNode } from '../../../core/decision-events/nodes.ts';
import { reachStepLimit } from '../../../core/decision-events/model-calls.ts';
import { decide } from '../../../core/decide.ts';
import type { CompiledEdge, CompiledNode } from '../../../core/graph/compile.ts';
import { HUMAN_TOOLS } from '../../../core/graph/definition.ts';
import { limitReached } from '../../../core/graph/graph-step.ts';
import type { NextNode, NodeOutcome } from '../../../core/graph/position.ts';
import { textOfValue, type GraphVariables, type Template } from '../../../core/graph/template.ts';
import { LIMITS } from '../../../core/limits.ts';
import { ARGUMENT_DEPTH } from '../../../core/tool.ts';
import { inSlices } from '../../../lib/in-slices.ts';
import { findExceededBudget } from '../../budgets/hold-to-budget.ts';
import { appendEvent, appendMessage, lengthOf } from '../../run-log/run-log.ts';
import type { WaitingRun } from '../../waits/open-waits.ts';
import { TurnFailure } from './ask-model.ts';
import { checkFinalAnswer } from './check-answer.ts';
import { commit } from './commit.ts';
import { readingsOf, readOutput, type NodeOutput } from './node-output.ts';
import { graphOf, openNode } from './open-node.ts';
import { requestGated } from './request-gated.ts';
import { saveCheckpointIfDue } from './save-checkpoint.ts';
import { newStep, type Drive } from './drive-state.ts';

/** Error code of a turn that cannot follow its graph. */
const GRAPH_FAILED = 'graph_failed';

/** Per commit: a graph that runs without calls commits after so many. */
const MOST_PENDING_EVENTS = 200;

/** Carries out the decision `enter_node`. Throws TurnFailure. */
export async function enter(drive: Drive, next: NextNode): Promise<void> {
  const { log } = drive;
  const node = nodeNamed(drive, next.node);
  const outcomes = log.state.graph?.outcomes ?? {};
  const before = await outputOf(drive, outcomes[next.from.at(-1) ?? '']);
  const visit = (log.state.graph?.visits[node.name] ?? 0) + 1;
  const variables = variablesOf(drive, { node: node.name, visit, output: before });
  const entered = { node: node.name, type: node.type, from: next.from };
  switch (node.type) {
    case 'router':
      return appendEvent(log, ...enterNode(log.state, { ...entered, length: lengthOf(log) }));
    case 'llm': {
      const prompt = node.prompt.isPlain ? undefined : textFrom(node, node.prompt, variables);
      // A node entered again in a fork was told before.
      const told = log.state.graph?.open ? [] : next.from;
      for (const from of told) await tellOutput(drive, outcomes[from]);
      const given = { ...(prompt !== undefined && { prompt }), length: lengthOf(log) };
      return appendEvent(log, ...enterNode(log.state, { ...entered, ...given }));
    }
    case 'tool':
    case 'human':
      return ask(drive, { next, node, ...callOf(drive, node, variables) });
  }
}

function nodeNamed({ definition }: Drive, name: string): CompiledNode {
  const node = definition.workflow_graph && graphOf(definition.workflow_graph).nodes.get(name);
  if (!node) throw new TurnFailure(GRAPH_FAILED, `The agent's graph has no node "${name}" to go on with.`);
  return node;
}

async function outputOf(drive: Drive, outcome: NodeOutcome | undefined): Promise<NodeOutput> {
  const output = await readOutput(drive, outcome);
  if (!output)
    throw new TurnFailure(GRAPH_FAILED, 'The output of the node before is not in the conversation any more.');
  return output;
}

/** Appends an earlier node's output as a message; the turn's own input is in the conversation already. */
async function tellOutput(drive: Drive, outcome: NodeOutcome | undefined): Promise<void> {
  if (outcome?.ordinal === undefined) return;
  const { text, untrusted } = await outputOf(drive, outcome);
  const content = [{ type: 'text' as const, text }];
  const message = { role: 'user' as const, content, outcomes: null, origin: 'drover' as const };
  appendMessage(drive.log, untrusted ? { ...message, trust: 'untrusted' } : message);
}

interface Here {
  node: string;
  visit: number;
  output: NodeOutput;
  custom?: Record<string, unknown>;
}

function variablesOf({ log: { state } }: Drive, here: Here): GraphVariables {
  const { custom = state.custom, node, visit, output } = here;
  const message = state.turn?.input.message ?? '';
  const position = { custom, current_node: node, iteration: state.steps, turn: state.turnCount };
  return { input: readingsOf(message), output: output.readings, state: { ...custom, ...position }, iteration: visit };
}

function rendered(node: CompiledNode, template: Template, variables: GraphVariables): unknown {
  const outcome = template.render(variables);
  const isDeep = outcome.ok && isDeeperThan(outcome.value, ARGUMENT_DEPTH);
  if (outcome.ok && !isDeep) return cleanJson(outcome.value);
  const why = outcome.ok ? `its value is nested more than ${ARGUMENT_DEPTH} levels deep` : outcome.error;
  throw new TurnFailure(GRAPH_FAILED, `The node "${node.name}" cannot be filled in: ${why}`);
}

function textFrom(node: CompiledNode, template: Template, variables: GraphVariables): string {
  return textOfValue(rendered(node, template, variables));
}

interface Call {
  name: string;
  input: Record<string, unknown>;
  /** The question for a person to approve. */
  approval?: string;
  seconds?: number | undefined;
}

type CallingNode = Extract<CompiledNode, { type: 'tool' | 'human' }>;

function callOf({ tools }: Drive, node: CallingNode, variables: GraphVariables): Call {
  if (node.type === 'tool') {
    const { tool } = node.config;
    const name = [...tools.values()].find((each) => each.name === tool || each.id === tool)?.name ?? tool;
    return { name, input: rendered(node, node.input, variables) as Record<string, unknown> };
  }
  const { signal, name: label, timeout_seconds: seconds } = node.config;
  const name = HUMAN_TOOLS[signal];
  const labelled = label === undefined ? {} : { name: label };
  if (signal === 'timer') return { name, input: { ...labelled, seconds } };
  if (signal === 'webhook') return { name, input: { ...labelled, ...(seconds && { timeout_seconds: seconds }) } };
  const question = textFrom(node, node.prompt, variables);
  return { name, input: { question }, ...(signal === 'approval' && { approval: question, seconds }) };
}

interface Asking extends Call {
  next: NextNode;
  node: CallingNode;
}

/** Requests a node's call as a model would: providers still accept the conversation. */
async function ask(drive: Drive, { next, node, name, input, approval, seconds }: Asking): Promise<void> {
  const { log } = drive;
  // Budgets count what a model has used before once it is committed. Then the node is entered, unless others have changed the run.
  if (log.pending.reservations.length > 0) return void (await commit(drive));
  const usedUp = await findExceededBudget(drive);
  const use: ToolUseBlock = { type: 'tool_use', id: newUseId(drive), name, input };
  const ordinal = appendMessage(log, { role: 'assistant', content: [use], outcomes: null });
  const entered = { node: node.name, type: node.type, from: next.from, ordinal: ordinal + 1, length: ordinal + 2 };
  appendEvent(log, ...enterNode(log.state, entered));
  drive.step = newStep();
  const asked = { step: log.state.steps, usedUp, node: { approval, seconds } };
  await requestGated(drive, [{ kind: 'tool_call', use }], asked);
  const { kind } = decide(log.state, drive.limits);
  if (kind !== 'await_calls' && kind !== 'open_waits') await commit(drive);
}

/** Deterministic, so that later requests are the same in each replay. */
function newUseId({ log }: Drive): string {
  const ordinal = lengthOf(log);
  for (let other = 0; ; other += 1) {
    const id = `node_${ordinal}${other > 0 ? `_${other}` : ''}`;
    if (!log.toolUseIds.has(id)) return id;
  }
}

/** Carries out the decision `complete_node`. Throws TurnFailure if neither an edge nor an answer follows. */
export async function complete(drive: Drive): Promise<void> {
  const { log, limits } = drive;
  const node = openNode(drive);
  const { graph: at } = log.state;
  if (!node || !at) throw new Error('no node is open');
  const outcome = outcomeOf(drive, node);
  const output = await outputOf(drive, outcome);
  const here = { node: node.name, visit: at.visit, output };
  const custom = written(drive, node, here);
  const variables = variablesOf(drive, { ...here, custom: { ...log.state.custom, ...custom } });
  const edge = await edgeFrom(node, variables);
  const isOver = limits.graph?.asksModels === false && limitReached(log.state, limits) !== undefined;
  const isLast = edge === undefined && at.queue.length === 0;
  if (!edge && outcome.status !== 'succeeded') throw failed(node, outcome, output);
  if (isOver && !isLast) reachLimit(drive);
  const next = isOver ? [] : (edge?.to ?? []);
  const base = { ...outcome, next, ...(custom && { custom }) };
  if (!isLast && !isOver) appendEvent(log, ...completeNode(log.state, { ...base, length: lengthOf(log) }));
  else if (!finish(drive, { node, outcome, output, base })) return;
  saveCheckpointIfDue(drive);
  const isSliceOver = performance.now() - drive.sinceMs > LIMITS.sliceMs;
  // Before the end of a slice, too: drives yield with nothing pending.
  if (log.pending.events.length > MOST_PENDING_EVENTS || isSliceOver) await commit(drive);
  // Yields: routers alone would block the process.
  else if (node.type === 'router') await setImmediate();
}

function outcomeOf({ log: { state } }: Drive, node: CompiledNode): NodeOutcome {
  const { graph, turn, calls } = state;
  if (node.type === 'llm') return { status: 'succeeded', ordinal: turn?.answer?.ordinal };
  if (node.type === 'router') return { ...graph?.outcomes[graph.from.at(-1) ?? ''], status: 'succeeded' };
  const [call] = calls;
  const before = graph?.outcomes[node.name];
  // The call was settled in the run from which this one was forked.
  if (!call && before) return before;
  const status = call?.status === 'succeeded' || call?.status === 'denied' ? call.status : 'failed';
  return { status: call?.status === 'unknown' ? 'unknown' : status, ordinal: graph?.ordinal, tool_call_id: call?.id };
}

/** The channels set when a node ends; undefined if none. */
function written(drive: Drive, node: CompiledNode, here: Here): Record<string, unknown> | undefined {
  if (node.writes.length === 0) return undefined;
  const variables = variablesOf(drive, here);
  const custom = Object.fromEntries(node.writes.map(([name, value]) => [name, rendered(node, value, variables)]));
  const size = JSON.stringify({ ...drive.log.state.custom, ...custom }).length;
  if (size <= LIMITS.customChars) return custom;
  const message = `The node "${node.name}" would make the channels of custom ${size} characters; ${LIMITS.customChars} are the most.`;
  throw new TurnFailure(GRAPH_FAILED, message);
}

/** The first edge whose condition holds; otherwise the default edge. Many conditions on a large input take seconds. */
async function edgeFrom(node: CompiledNode, variables: GraphVariables): Promise<CompiledEdge | undefined> {
  let taken: CompiledEdge | undefined;
  await inSlices(node.edges, (edge) => {
    const outcome = edge.condition?.test(variables) ?? { ok: true, value: false };
    if (!outcome.ok) {
      const message = `The condition of edges.${edge.index}, which leaves the node "${node.name}", fails: ${outcome.error}`;
      throw new TurnFailure(GRAPH_FAILED, message);
    }
    if (outcome.value) taken = edge;
    return taken === undefined;
  });
  return taken ?? node.edges.find(({ condition }) => condition === null);
}

function failed(node: CompiledNode, { status }: NodeOutcome, { text }: NodeOutput): TurnFailure {
  const what = status === 'denied' ? 'was denied' : status === 'unknown' ? 'has no known outcome' : 'failed';
  return new TurnFailure(
    GRAPH_FAILED,
    `The call of the node "${node.name}" ${what}, and no edge leads on: ${beginningOf(text, 2000)}`,
  );
}

function reachLimit({ log, limits }: Drive): void {
  const limit = limitReached(log.state, limits) ?? limits.maxSteps;
  appendEvent(log, ...reachStepLimit(log.state, { last: true }, limit));
}

interface Finished {
  node: CompiledNode;
  outcome: NodeOutcome;
  output: NodeOutput;
  base: NodeOutcome & { next: string[] };
}

/** Ends the graph: the node's output is the turn's answer. Returns false if it does not fit and the model is asked again. */
function finish(drive: Drive, { node, outcome, output, base }: Finished): boolean {
  const { log } = drive;
  const { steps: step } = log.state;
  const said = log.messages[(outcome.ordinal ?? -1) - log.before.messages];
  if (node.type === 'llm' && said) {
    const content = said.content as Parameters<typeof checkFinalAnswer>[1]['content'];
    checkFinalAnswer(drive, { step, ordinal: said.ordinal, content });
    if (!log.state.turn?.answer) return false;
  }
  const content = [{ type: 'text' as const, text: output.text }];
  const answer = { role: 'assistant' as const, content, outcomes: null };
  const isSaid = said?.role === 'assistant';
  const ordinal = isSaid
    ? said.ordinal
    : appendMessage(log, output.untrusted ? { ...answer, trust: 'untrusted' } : answer);
  const ends = { ends: true as const, answer: ordinal, length: lengthOf(log) };
  appendEvent(log, ...completeNode(log.state, { ...base, ...ends }));
  if (node.type !== 'llm') checkFinalAnswer(drive, { step, ordinal, content, last: true });
  return true;
}

/** The drive, with the settings of its open human node, if a person, a timer or a webhook answers it. */
export function waitingIn(drive: Drive): WaitingRun {
  const node = openNode(drive);
  if (node?.type !== 'human') return drive;
  const { signal, name, timeout_seconds: seconds } = node.config;
  const approval = signal === 'approval';
  // A signal without a name decides an approval, too, but answers no other wait that has one.
  return { ...drive, node: { approval, name: approval ? (name ?? node.name) : name, seconds } };
}
