/**
 * A run on paper: it takes the decisions of `decide`, lets a tape of numbers say how each of them turns out, and records that
 * by the functions that drivers record it by. The same tape gives the same log. It checks on the way that every decision is
 * legal.
 */
import assert from 'node:assert/strict';
import { decide, type Decision, type RunLimits } from '../../core/decide.ts';
import {
  attemptOf,
  completeReflection,
  reflectionsOf,
  rejectAnswer,
  validateAnswer,
} from '../../core/decision-events/answers.ts';
import { askAboutCalls, askApproval, closeQuestions } from '../../core/decision-events/approvals.ts';
import { endAsCancelled, endAsCompleted, interruptTurn } from '../../core/decision-events/endings.ts';
import {
  announceModelCall,
  announceOwnCall,
  deferModelCall,
  reachStepLimit,
  recordAnswer,
  recordCompaction,
  recordContextCut,
  recordModelFailure,
  recordModelRetry,
  resumeModelCall,
} from '../../core/decision-events/model-calls.ts';
import { recordMemories } from '../../core/decision-events/memory.ts';
import { completeCallBatch } from '../../core/decision-events/call-batches.ts';
import {
  beginAttempt,
  requestCall,
  settleCall,
  useSignal,
  type RequestOutcome,
} from '../../core/decision-events/tool-calls.ts';
import {
  awaitCalls,
  awaitPeople,
  beginRun,
  beginTurn,
  changeStatus,
  completeTurn,
  failTurn,
  takeQueued,
  takeSteering,
} from '../../core/decision-events/turns.ts';
import { askClient, askClientAgain, requestInput } from '../../core/decision-events/waits.ts';
import { checkEvent, isTerminal, type NewEvent, type RunEvent } from '../../core/events.ts';
import { limitReached } from '../../core/graph/graph-step.ts';
import { fixedId } from '../../core/ids.ts';
import { invalidAnswersBefore, isLost } from '../../core/intents.ts';
import { settleAttempt } from '../../core/ledger.ts';
import { LIMITS } from '../../core/limits.ts';
import { NO_TOKENS, type StopReason } from '../../core/model.ts';
import { fold, isSettled, type CallState, type RunState } from '../../core/state.ts';
import type { ToolOutcome } from '../../core/tool.ts';
import { decideOnBudget, lookAtBudget } from './simulated-budget.ts';
import { decideOnCallBatch, proposeCalls } from './simulated-call-batches.ts';
import { complete, enter, type OnPaper } from './simulated-graph.ts';
import { actOn, idsFrom, type People } from './simulated-people.ts';

export interface Walk {
  events: RunEvent[];
  /** Model calls that were announced, per turn. */
  calls: Map<string, number>;
  state: RunState;
}

export const RUN_ID = fixedId('simulated run');
const PROBLEM = { code: 'c', message: 'm' };
const AT = '2026-11-22T00:00:00.000Z';
const DEFERRED = { since: AT, next_at: AT, until: AT };
const MOST_DECISIONS = 3000;

interface Simulation {
  limits: RunLimits;
  state: RunState;
  events: RunEvent[];
  calls: Map<string, number>;
  ids: number;
  /** The next number of the tape below `n`; 0, the plainest outcome, once it has run out. */
  pick: (n: number) => number;
}

/** Simulates a run of up to three turns until it has ended. Throws where it does not end or does what it must not. */
export function simulate(tape: readonly number[], limits: RunLimits, keepOpen: boolean): Walk {
  let position = 0;
  const simulation: Simulation = {
    limits,
    events: [],
    calls: new Map(),
    ids: 0,
    pick: (n) => (tape[position++] ?? 0) % n,
    state: undefined as unknown as RunState,
  };
  emit(simulation, createdEvent(keepOpen));
  if (!keepOpen || simulation.pick(2) === 1) startTurn(simulation);
  for (let decisions = 0; !isTerminal(simulation.state.status); decisions++) {
    assert.ok(decisions < MOST_DECISIONS, 'the run does not end');
    const act = simulation.pick(50);
    if (act === 49) cancel(simulation);
    else if (act === 48) queueMessage(simulation);
    else if (act === 47) interrupt(simulation);
    else outcomeOf(simulation, decide(simulation.state, limits));
  }
  assert.deepEqual(decide(simulation.state, limits), { kind: 'dormant' });
  return simulation;
}

function outcomeOf(simulation: Simulation, decision: Decision): void {
  const { state, limits } = simulation;
  switch (decision.kind) {
    case 'dormant':
      return somebodyActs(simulation);
    case 'reflect':
      return reflect(simulation, decision.ordinal);
    case 'begin_turn':
      if (limits.graph && state.status === 'created') return emit(simulation, ...beginRun(state));
      return emit(simulation, ...beginTurn(state));
    case 'take_queued':
      return emit(simulation, ...takeQueued(state, fixedId(`turn from the queue ${simulation.ids++}`)));
    case 'call_model':
      return callModel(simulation, decision);
    case 'enter_node':
      return enter(onPaper(simulation), decision.next);
    case 'complete_node':
      return complete(onPaper(simulation));
    case 'run_calls':
      return settleSome(simulation, decision.calls);
    case 'await_calls':
      return waitForCalls(simulation, decision);
    case 'ask_about':
      return askAbout(simulation, decision.calls);
    case 'open_waits':
      return openWaits(simulation, decision.calls);
    case 'use_signal':
      return emit(simulation, useSignal(state, decision.call, decision.signal));
    case 'await_people':
      return peopleAct(simulation, decision.calls);
    case 'resume':
      return emit(simulation, ...changeStatus(state, 'executing'));
    case 'complete_turn':
      assert.ok(state.calls.every(isSettled), 'a turn completes before its calls have settled');
      emit(simulation, ...completeCallBatch(state));
      return emit(simulation, ...completeTurn(simulation.state, decision, undefined));
    case 'fail_turn':
      return fail(simulation);
  }
}

/** What it waits for is sent, and then comes in any order: calls' results, or what the people do who are asked meanwhile. */
function waitForCalls(simulation: Simulation, { calls, asked }: Extract<Decision, { kind: 'await_calls' }>): void {
  const { state, pick } = simulation;
  const waiting = asked.length > 0 ? 'awaiting_human' : 'awaiting_tool';
  if (calls.length > 0 || state.status !== waiting) return emit(simulation, ...awaitCalls(state, asked));
  const clients = state.calls.filter((call) => call.wait?.type === 'tool_results' && !isSettled(call));
  assert.ok(clients.length === 0 || asked.length === 0, 'people are asked before the client has given its results');
  const isAtWork = ({ mode, wait }: CallState) => (mode === 'queued' ? wait === null : wait?.type === 'child');
  const work = state.calls.some((call) => !isSettled(call) && call.status === 'running' && isAtWork(call));
  const isPending = madeByWorkers(state).some((call) => call.status === 'pending');
  if (asked.length > 0 && (pick(2) === 1 || !(work || isPending))) return askedAct(simulation, asked);
  return othersAct(simulation);
}

function onPaper(simulation: Simulation): OnPaper {
  const { limits, pick } = simulation;
  assert.ok(limits.graph, 'a node without a graph');
  return {
    state: () => simulation.state,
    emit: (...events) => emit(simulation, ...events),
    pick,
    limits: { ...limits, graph: limits.graph },
    ask: (step) => wish(simulation, { place: 0, step, isBatch: false }),
  };
}

function askAbout(simulation: Simulation, calls: readonly CallState[]): void {
  assert.ok(calls.every((call) => call.status === 'unknown' && call.asked === 'no'));
  const { nextId } = people(simulation);
  const questions = calls.map((call) => ({ approvalId: nextId(), call, digest: 'd', seconds: 1 }));
  emit(simulation, ...askAboutCalls(simulation.state, questions));
}

function fail(simulation: Simulation): void {
  assert.equal(madeByWorkers(simulation.state).length, 0, 'a turn fails while workers make its calls');
  emit(simulation, ...failTurn(simulation.state, PROBLEM, undefined));
}

function madeByWorkers(state: RunState): CallState[] {
  return state.calls.filter(
    (call) => call.mode === 'queued' && (call.status === 'pending' || call.status === 'running'),
  );
}

/** Workers make some of their calls, or the client gives a result. */
function othersAct(simulation: Simulation): void {
  const made = madeByWorkers(simulation.state).filter((call) => call.wait === null);
  const asks = made.find((call) => call.status === 'running');
  if (asks && simulation.pick(8) === 7)
    return emit(simulation, requestInput(simulation.state, { tool_call_id: asks.id, type: 'user' }));
  const isOfType = (type: string) => (call: CallState) => call.wait?.type === type && !isSettled(call);
  const clients = simulation.state.calls.filter(isOfType('tool_results'));
  const client = clients[0] ?? simulation.state.calls.find(isOfType('child'));
  if (!client || (made.length > 0 && simulation.pick(2) === 0)) return settleSome(simulation, made);
  actOn(people(simulation), client);
  const left = clients.slice(1).map(({ id }) => id);
  emit(simulation, ...askClientAgain(simulation.state.turn?.id, left));
}

function openWaits(simulation: Simulation, calls: readonly CallState[]): void {
  assert.equal(simulation.state.status, 'executing');
  const types = ['user', 'webhook', 'timer', 'tool_results', 'child'] as const;
  const clients: string[] = [];
  for (const { id, status } of calls) {
    assert.equal(status, 'pending', 'a wait is opened twice, or before it may be');
    const type = types[simulation.pick(5)] ?? 'user';
    if (type === 'tool_results') clients.push(id);
    else emit(simulation, requestInput(simulation.state, { tool_call_id: id, type }));
  }
  if (clients.length > 0) emit(simulation, ...askClient(simulation.state, { tool_call_ids: clients }));
}

function people(simulation: Simulation): People {
  return {
    emit: (...events) => emit(simulation, ...events),
    state: () => simulation.state,
    pick: simulation.pick,
    nextId: idsFrom(() => simulation.ids++),
  };
}

function peopleAct(simulation: Simulation, calls: readonly CallState[]): void {
  const { asked } = simulation.state.budget;
  assert.ok(calls.length > 0 || asked, 'a run waits for people who are asked nothing');
  assert.equal(madeByWorkers(simulation.state).length, 0);
  if (simulation.state.status !== 'awaiting_human') return emit(simulation, ...awaitPeople(simulation.state, calls));
  if (asked) return decideOnBudget(people(simulation));
  return askedAct(simulation, calls);
}

/** One of them is acted on. */
function askedAct(simulation: Simulation, calls: readonly CallState[]): void {
  const call = calls[simulation.pick(calls.length)] ?? calls[0];
  if (!call) return undefined;
  const isOfCallBatch = call.status === 'awaiting_approval' && simulation.state.plan?.calls.includes(call.id);
  if (isOfCallBatch) return decideOnCallBatch(people(simulation), call);
  return actOn(people(simulation), call);
}

function somebodyActs(simulation: Simulation): void {
  const { state, pick } = simulation;
  assert.equal(state.turn, null, 'a run is dormant with a turn to do');
  assert.ok(state.status === 'created' || state.status === 'awaiting_human', `a run is dormant while ${state.status}`);
  if (state.turnCount < 3 && pick(3) > 0) return startTurn(simulation);
  emit(simulation, ...endAsCompleted(state, 'user', 'completed'));
}

function startTurn(simulation: Simulation): void {
  const number = (simulation.state.turnCount ?? 0) + 1;
  emit(simulation, {
    type: 'turn.started',
    actor: 'user',
    turn_id: fixedId(`turn ${number}`),
    payload: { number, input: { message: 'm' } },
  });
}

function callModel(simulation: Simulation, call: Extract<Decision, { kind: 'call_model' }>): void {
  const { state, pick, limits, calls } = simulation;
  const turn = state.turn;
  assert.ok(turn && state.status === 'executing', `a model is called while ${state.status}`);
  assert.ok(state.calls.every(isSettled), 'a model is called before every tool use has its result');
  assert.ok(!isLost(state), 'a model is called that never proposes anything valid');
  assert.equal(call.step, state.steps + 1);
  const isLast = limitReached(state, limits) !== undefined && (turn.steps >= limits.maxSteps || !state.graph?.open);
  if (!call.announced) assert.equal(call.toolChoice, isLast ? 'none' : 'auto');
  emit(simulation, ...completeCallBatch(state));
  if (!call.announced) {
    const { queued, unread = [] } = state;
    const read = turn.begun ? 0 : unread.length + 1;
    if (queued?.mode === 'steer') emit(simulation, ...takeSteering(state, queued, state.length + read + 1));
    if (turn.number % 2 === 0 && !turn.memory) {
      const given = { entries: [], step: call.step, ordinal: turn.from ?? 0, recorded: false };
      emit(simulation, recordMemories(simulation.state, given));
    }
    emit(simulation, ...reachStepLimit(simulation.state, call, limits.maxSteps));
    const length = state.length + read + (queued?.mode === 'steer' ? 1 : 0);
    const asked = { provider: 'p', model: 'm', estimated_tokens: 1, length };
    if (state.length > 4 && state.firstKept === undefined) emit(simulation, recordContextCut(simulation.state, CUT));
    else if (state.length > 6 && state.compaction === undefined)
      emit(simulation, recordCompaction(simulation.state, call.step, COMPACTED));
    emit(simulation, announceModelCall(simulation.state, call, asked));
    calls.set(turn.id, (calls.get(turn.id) ?? 0) + 1);
  } else if (state.queued?.mode === 'steer') {
    emit(simulation, ...takeSteering(state, state.queued, state.length + 1));
  }
  if (!lookAtBudget(people(simulation))) return;
  const failure = { model: 'm', error: PROBLEM };
  switch (pick(8)) {
    case 0:
      return respond(simulation, { step: call.step, stopReason: 'end_turn', toolCalls: 0 });
    case 1:
      return respond(simulation, { step: call.step, stopReason: 'pause_turn', toolCalls: 0 });
    case 2:
      return emit(simulation, recordModelFailure(simulation.state, call.step, failure));
    case 3:
      if (pick(3) === 2)
        return emit(simulation, deferModelCall(simulation.state, call.step, { ...failure, ...DEFERRED }));
      return emit(simulation, recordModelRetry(simulation.state, call.step, { ...failure, attempt: 1, wait_ms: 1 }));
    case 4:
      // The driver died during the call.
      return undefined;
    case 5:
      return fail(simulation);
    default:
      if (call.toolChoice === 'none')
        return respond(simulation, { step: call.step, stopReason: 'tool_use', toolCalls: 0 });
      return respond(simulation, { step: call.step, stopReason: 'tool_use', toolCalls: 1 + pick(3) });
  }
}

const COMPACTED = {
  strategy: 'hybrid' as const,
  first_kept_ordinal: 2,
  summary: 'a summary',
  cleared_before: 3,
  cleared_tokens: 200,
  tokens_before: 9,
  tokens_after: 4,
  budget_tokens: 5,
  dropped_tokens: 5,
};
const CUT = {
  reason: 'context_window',
  first_kept_ordinal: 2,
  dropped_messages: 2,
  dropped_tokens: 1,
  budget_tokens: 1,
} as const;

function respond(simulation: Simulation, answer: { step: number; stopReason: StopReason; toolCalls: number }): void {
  const { state, pick } = simulation;
  const { step, toolCalls, stopReason } = answer;

  const usage = { ...NO_TOKENS, input: pick(100), output: pick(10), cache_read: pick(5) };
  const cost = pick(10) === 9 ? null : `0.00${pick(1000)}`;
  const said = { provider: 'p', model: 'm', stopReason, usage, cost, latencyMs: pick(200) };
  if (state.modelCall?.deferred) emit(simulation, resumeModelCall(state, step, { model: 'm', waited_ms: 1 }));
  emit(simulation, recordAnswer(state, { ...said, step, toolCalls, ordinal: state.length, intents: [] }));
  checkAnswer(simulation, step);
  const isBatch = toolCalls >= LIMITS.callBatchMin;
  const invalid = Array.from({ length: toolCalls }, () => pick(3) === 2);
  const attempt = invalid.includes(false) ? 0 : invalidAnswersBefore(simulation.state) + 1;
  for (const [place, isInvalid] of invalid.entries()) {
    if (isInvalid) request(simulation, { place, step, mode: 'queued', outcome: () => ({ ...INVALID, attempt }) });
    else wish(simulation, { place, step, isBatch });
  }
  if (isBatch) proposeCalls(people(simulation), simulation.state.calls);
}

/** An answer that would end the turn may have to fit a schema: it does, or the model is told, or has had its chances. */
function checkAnswer(simulation: Simulation, step: number): void {
  const { state, pick } = simulation;
  const { answer, maxStepsReached = false } = state.turn ?? {};
  // That of a node is the turn's where the graph ends with it.
  if (!answer || (state.graph?.open && !maxStepsReached)) return;
  const { ordinal } = answer;
  switch (pick(4)) {
    case 2:
      return emit(simulation, validateAnswer(state, { step, ordinal, as: 'json' }));
    case 3: {
      const last = maxStepsReached || attemptOf(state) > 2;
      const errors = [{ path: 'p', message: 'm' }];
      return emit(simulation, rejectAnswer(state, { step, ordinal, errors, last, length: ordinal + (last ? 1 : 2) }));
    }
  }
}

/** The verdict on an answer: it will do, or lacks something; or the driver dies before it is there. */
function reflect(simulation: Simulation, ordinal: number): void {
  const { state, pick } = simulation;
  assert.ok(state.turn?.answer?.ordinal === ordinal && !state.turn.reflection?.last, 'nothing to reflect on');
  assert.ok(reflectionsOf(state) <= LIMITS.reflectionsPerTurn, 'there is no end to reflection');
  const { steps: step } = state;
  const isAsked = pick(3) > 0;
  if (isAsked) emit(simulation, announceOwnCall(state, { ...VERDICT, step }));
  if (isAsked && state.status === 'executing') emit(simulation, ...changeStatus(simulation.state, 'reflecting'));
  const outcome = pick(4);
  if (outcome === 3) return;
  const gaps = outcome === 0 ? [] : ['g'];
  const last = outcome === 0 || reflectionsOf(state) >= LIMITS.reflectionsPerTurn;
  const found = { step, ordinal, meets_criteria: outcome === 0, gaps, last, length: state.length + (last ? 0 : 1) };
  emit(simulation, ...completeReflection(simulation.state, found));
}

const VERDICT = { provider: 'p', model: 'm', tool: 'submit_verdict', estimatedTokens: 1, maxTokens: 1 };

const INVALID = { kind: 'invalid', error: PROBLEM } as const;

const ABOUT = { kind: 'approval' as const, tool: 't', digest: 'd', expires_in_seconds: 1 };

/** A valid wish: it is made, refused, or asked about. */
function wish(
  simulation: Simulation,
  { place, step, isBatch }: { place: number; step: number; isBatch: boolean },
): void {
  const { pick } = simulation;
  const mode = (['pure', 'inline', 'queued', 'wait'] as const)[pick(4)] ?? 'pure';
  const isRefused = mode === 'queued' && pick(4) === 3;
  const mayAsk = !isBatch && !isRefused && (mode === 'queued' || mode === 'wait');
  const isAsked = mayAsk && pick(3) === 2;
  const outcome = (tool_call_id: string): RequestOutcome => {
    if (isRefused) return { kind: 'denied', error: PROBLEM };
    if (!isAsked) return { kind: mode === 'inline' ? 'begun' : 'open' };
    return { kind: 'asked', about: { ...ABOUT, approval_id: people(simulation).nextId(), tool_call_id } };
  };
  request(simulation, { place, step, mode, outcome });
}

interface Wished {
  place: number;
  step: number;
  mode: CallState['mode'];
  outcome: (id: string) => RequestOutcome;
}

function request(simulation: Simulation, { place, step, mode, outcome }: Wished): void {
  const id = fixedId(`call ${simulation.ids++}`);
  const tainted_by = simulation.state.turn?.untrusted;
  const taint = { ...(tainted_by && { tainted_by }), ...(place % 2 === 1 && { untrusted: true as const }) };
  const call = { tool_call_id: id, tool_use_id: id, place, name: 't', mode, effect: 'unknown' as const, ...taint };
  emit(simulation, ...requestCall(simulation.state, { call, step, decided: [], outcome: outcome(id) }));
}

/** Each call may begin another attempt, settle in one of its ways, or take its time. */
function settleSome(simulation: Simulation, calls: readonly CallState[]): void {
  assert.ok(calls.length > 0 && !calls.some(isSettled), 'calls are made that have settled');
  assert.ok(!calls.some((call) => call.mode === 'wait' || call.status === 'awaiting_approval'), 'made unasked');
  for (const call of calls) settleOrNot(simulation, call);
}

function settleOrNot(simulation: Simulation, { id, attempt, mode, status, effect }: CallState): void {
  const latencyMs = simulation.pick(200);
  const begin = () => emit(simulation, beginAttempt(simulation.state, id, attempt + 1));
  const end = (outcome: ToolOutcome) => {
    const settlement = settleAttempt(outcome, { effect, attempt, retry: { max_retries: 0, backoff_ms: 0 } });
    assert.ok(settlement.status !== 'retry');
    emit(simulation, settleCall(simulation.state, { callId: id, attempt, settlement, latencyMs }, 'worker'));
  };
  if (status === 'pending') return mode === 'inline' && simulation.pick(4) === 3 ? askAgain(simulation, id) : begin();
  switch (simulation.pick(5)) {
    case 1:
      return end({ kind: 'error', ...PROBLEM });
    case 2:
      return end({ kind: 'lost', ...PROBLEM });
    case 3:
      return mode === 'pure' ? undefined : begin();
    case 4:
      return undefined;
    default:
      return end({ kind: 'succeeded', output: 1 });
  }
}

/** By now a policy wants the next attempt approved. */
function askAgain(simulation: Simulation, tool_call_id: string): void {
  const { turn, steps: step } = simulation.state;
  const about = { ...ABOUT, approval_id: people(simulation).nextId(), tool_call_id };
  emit(simulation, askApproval(turn?.id, { step, about }));
}

function cancel(simulation: Simulation): void {
  const { status, turn } = simulation.state;
  emit(simulation, ...endAsCancelled({ status, turnId: turn?.id }, undefined));
}

/** A user says something while a turn is open. */
function queueMessage(simulation: Simulation): void {
  if (!simulation.state.turn) return;
  const mode = simulation.pick(2) === 0 ? 'queue' : 'steer';
  const payload = { message_id: fixedId(`message ${simulation.ids++}`), mode, input: { message: 'q' } } as const;
  emit(simulation, { type: 'message.queued', actor: 'user', payload });
}

/** A user stops the open turn; what is open of it is closed. */
function interrupt(simulation: Simulation): void {
  const { turn } = simulation.state;
  if (!turn) return;
  const { asked } = simulation.state.budget;
  if (asked !== null) emit(simulation, { type: 'approval.expired', actor: 'system', payload: { approval_id: asked } });
  emit(simulation, ...closeQuestions(simulation.state));
  const error = { code: 'interrupted', message: 'm' };
  for (const call of simulation.state.calls.filter((each) => !isSettled(each))) {
    emit(simulation, { type: 'tool.denied', actor: 'system', payload: { tool_call_id: call.id, error } });
  }
  emit(simulation, ...completeCallBatch(simulation.state));
  emit(simulation, ...interruptTurn({ status: simulation.state.status, turnId: turn.id }, 'interrupt'));
}

function emit(simulation: Simulation, ...events: NewEvent[]): void {
  for (const event of events) emitOne(simulation, event);
}

function emitOne(simulation: Simulation, event: NewEvent): void {
  const turn_id = event.turn_id ?? simulation.state?.turn?.id;
  const seq = simulation.events.length + 1;
  const occurred_at = new Date(Date.UTC(2026, 0, 1) + seq * 1000).toISOString();
  const logged = { ...checkEvent(event), turn_id, seq, occurred_at } as RunEvent;
  simulation.events.push(logged);
  simulation.state = fold(simulation.state ?? null, logged);
}

function createdEvent(keepOpen: boolean): NewEvent {
  return {
    type: 'run.created',
    actor: 'user',
    payload: {
      agent_id: fixedId('agent'),
      agent_version: '1.0.0',
      thread_id: fixedId('thread'),
      lineage: fixedId('lineage'),
      lineage_base: [],
      base_length: 0,
      keep_open: keepOpen,
      kind: 'agent',
      config: {},
      pinned: { tools: [] },
      depth: 0,
      parent_run_id: null,
      root_run_id: null,
      parent_task_id: null,
      forked_from_run_id: null,
      forked_at_seq: null,
      retried_from: null,
      traceparent: null,
    },
  };
}
