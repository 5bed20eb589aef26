/**
 * A driver on paper: it takes the decisions of `decide` and lets a tape of numbers say how each of them turns out. The
 * same tape gives the same log. It checks on the way that every decision is legal.
 */
import assert from 'node:assert/strict';
import { decide, type Decision, type RunLimits } from '../../core/decide.ts';
import { checkEvent, isTerminal, type NewEvent, type RunEvent, type RunStatus } from '../../core/events.ts';
import { fixedId } from '../../core/ids.ts';
import { invalidAnswersBefore, isLost } from '../../core/intents.ts';
import { LIMITS } from '../../core/limits.ts';
import { NO_TOKENS, type StopReason } from '../../core/model.ts';
import { fold, isSettled, type CallState, type RunState } from '../../core/state.ts';
import { mayBecome } from '../../core/transitions.ts';
import { decideOnBudget, lookAtBudget } from './simulated-budget.ts';
import { completePlan, decideOnPlan, proposePlan } from './simulated-plans.ts';
import { actOn, askPeople, idsFrom, type People } from './simulated-people.ts';

export interface Walk {
  events: RunEvent[];
  /** Model calls that were announced, per turn. */
  calls: Map<string, number>;
  state: RunState;
}

export const RUN_ID = fixedId('simulated run');
const PROBLEM = { code: 'c', message: 'm' };
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
    if (simulation.pick(50) === 49) cancel(simulation);
    else outcomeOf(simulation, decide(simulation.state, limits));
  }
  assert.deepEqual(decide(simulation.state, limits), { kind: 'rest' });
  return simulation;
}

function outcomeOf(simulation: Simulation, decision: Decision): void {
  switch (decision.kind) {
    case 'rest':
      return somebodyActs(simulation);
    case 'begin_turn':
      if (simulation.state.status === 'created') {
        emit(simulation, { type: 'run.started', actor: 'worker', payload: {} });
        become(simulation, 'initializing');
      }
      return become(simulation, 'planning', 'executing');
    case 'call_model':
      return callModel(simulation, decision);
    case 'run_calls':
      return settleSome(simulation, decision.calls);
    case 'await_calls':
      if (simulation.state.status !== 'awaiting_tool') return become(simulation, 'awaiting_tool');
      return awaitCalls(simulation);
    case 'ask_about':
      assert.ok(decision.calls.every((call) => call.status === 'unknown' && call.asked === 'no'));
      return decision.calls.forEach((call) => askPeople(people(simulation), call, 'unknown'));
    case 'open_waits':
      return openWaits(simulation, decision.calls);
    case 'use_signal':
      return useSignal(simulation, decision);
    case 'await_people':
      return awaitPeople(simulation, decision.calls);
    case 'resume':
      return become(simulation, 'executing');
    case 'complete_turn':
      return completeTurn(simulation, decision);
    case 'fail_turn':
      return failTurn(simulation);
  }
}

function madeByWorkers(state: RunState): CallState[] {
  return state.calls.filter(
    (call) => call.mode === 'queued' && (call.status === 'pending' || call.status === 'running'),
  );
}

/** Workers make some of their calls, or the client gives a result. */
function awaitCalls(simulation: Simulation): void {
  const made = madeByWorkers(simulation.state);
  const clients = simulation.state.calls.filter((call) => call.wait?.type === 'tool_results' && !isSettled(call));
  const [client] = clients;
  if (!client || (made.length > 0 && simulation.pick(2) === 0)) return settleSome(simulation, made);
  actOn(people(simulation), client);
  const left = clients.slice(1).map(({ id }) => id);
  if (left.length > 0)
    emit(simulation, { type: 'client_tools.requested', actor: 'system', payload: { tool_call_ids: left } });
}

function openWaits(simulation: Simulation, calls: readonly CallState[]): void {
  assert.equal(simulation.state.status, 'executing');
  const types = ['user', 'webhook', 'timer', 'tool_results'] as const;
  const clients: string[] = [];
  for (const { id, status } of calls) {
    assert.equal(status, 'pending', 'a wait is opened twice, or before it may be');
    const type = types[simulation.pick(4)] ?? 'user';
    if (type === 'tool_results') clients.push(id);
    else emit(simulation, { type: 'input.requested', actor: 'agent', payload: { tool_call_id: id, type } });
  }
  if (clients.length === 0) return;
  become(simulation, 'awaiting_tool');
  emit(simulation, { type: 'client_tools.requested', actor: 'agent', payload: { tool_call_ids: clients } });
}

function people(simulation: Simulation): People {
  return { emit: (event) => emit(simulation, event), pick: simulation.pick, nextId: idsFrom(() => simulation.ids++) };
}

function useSignal(simulation: Simulation, { call, signal }: Extract<Decision, { kind: 'use_signal' }>): void {
  const payload = { tool_call_id: call.id, latency_ms: 0, output_bytes: 1, signal_id: signal.id };
  emit(simulation, { type: 'tool.succeeded', actor: 'user', payload });
}

function awaitPeople(simulation: Simulation, calls: readonly CallState[]): void {
  const { asked } = simulation.state.budget;
  assert.ok(calls.length > 0 || asked, 'a run waits for people who are asked nothing');
  assert.equal(madeByWorkers(simulation.state).length, 0);
  if (simulation.state.status === 'awaiting_tool') become(simulation, 'executing');
  if (simulation.state.status !== 'awaiting_human') return become(simulation, 'awaiting_human');
  if (asked) return decideOnBudget(people(simulation), simulation.state);
  const call = calls[simulation.pick(calls.length)] ?? calls[0];
  if (!call) return undefined;
  const isOfPlan = call.status === 'awaiting_approval' && simulation.state.plan?.calls.includes(call.id);
  if (isOfPlan) return decideOnPlan(people(simulation), simulation.state, call);
  return actOn(people(simulation), call);
}

function somebodyActs(simulation: Simulation): void {
  const { state, pick } = simulation;
  assert.equal(state.turn, null, 'a run rests with a turn to do');
  assert.ok(state.status === 'created' || state.status === 'awaiting_human', `a run rests while ${state.status}`);
  if (state.turnCount < 3 && pick(3) > 0) return startTurn(simulation);
  become(simulation, 'completed');
  emit(simulation, { type: 'run.completed', actor: 'user', payload: { stop_reason: 'completed' } });
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
  assert.equal(call.toolChoice, turn.steps >= limits.maxSteps ? 'none' : 'auto');
  completePlan(people(simulation), state);
  const by = { actor: 'agent' as const, step: call.step };
  if (!call.announced) {
    if (call.last && !turn.maxStepsReached) {
      emit(simulation, { type: 'run.max_steps_reached', actor: 'system', payload: { limit: limits.maxSteps } });
    }
    const about = { provider: 'p', model: 'm', estimated_tokens: 1 };
    const length = state.length + (turn.begun ? 0 : 1);
    emit(simulation, { ...by, type: 'model.called', payload: { ...about, length, tool_choice: call.toolChoice } });
    calls.set(turn.id, (calls.get(turn.id) ?? 0) + 1);
  }
  if (!lookAtBudget(people(simulation))) return;
  const failure = { model: 'm', error: PROBLEM };
  switch (pick(8)) {
    case 0:
      return respond(simulation, { step: call.step, stopReason: 'end_turn', toolCalls: 0 });
    case 1:
      return respond(simulation, { step: call.step, stopReason: 'pause_turn', toolCalls: 0 });
    case 2:
      return emit(simulation, { ...by, type: 'model.failed', payload: failure });
    case 3:
      return emit(simulation, { ...by, type: 'model.retried', payload: { ...failure, attempt: 1, wait_ms: 1 } });
    case 4:
      // The driver died during the call.
      return undefined;
    case 5:
      return failTurn(simulation);
    default:
      if (call.toolChoice === 'none')
        return respond(simulation, { step: call.step, stopReason: 'tool_use', toolCalls: 0 });
      return respond(simulation, { step: call.step, stopReason: 'tool_use', toolCalls: 1 + pick(3) });
  }
}

function respond(simulation: Simulation, answer: { step: number; stopReason: StopReason; toolCalls: number }): void {
  const { state, pick } = simulation;
  emit(simulation, {
    type: 'model.responded',
    actor: 'agent',
    step: answer.step,
    payload: {
      provider: 'p',
      model: 'm',
      stop_reason: answer.stopReason,
      ordinal: state.length,
      tool_calls: answer.toolCalls,
      usage: { ...NO_TOKENS, input: pick(100), output: pick(10), cache_read: pick(5) },
      cost_usd: pick(10) === 9 ? null : `0.00${pick(1000)}`,
      latency_ms: pick(200),
    },
  });
  const isPlan = answer.toolCalls >= LIMITS.planCalls;
  const invalid = Array.from({ length: answer.toolCalls }, () => pick(3) === 2);
  const attempt = invalid.includes(false) ? 0 : invalidAnswersBefore(simulation.state) + 1;
  for (const [place, isInvalid] of invalid.entries()) {
    if (isInvalid) reject(simulation, { place, step: answer.step, attempt });
    else request(simulation, { place, step: answer.step, isPlan });
  }
  if (isPlan) proposePlan(people(simulation), simulation.state.calls);
}

function reject(simulation: Simulation, wish: { place: number; step: number; attempt: number }): void {
  const { place, step, attempt } = wish;
  const id = fixedId(`call ${simulation.ids++}`);
  const call = { tool_call_id: id, tool_use_id: id, name: 't' };
  const payload = { ...call, place, mode: 'queued' as const, effect: 'unknown' as const };
  emit(simulation, { type: 'tool.requested', actor: 'agent', step, payload });
  emit(simulation, { type: 'intent.rejected', actor: 'system', step, payload: { ...call, ...PROBLEM, attempt } });
  const failed = { tool_call_id: id, error: PROBLEM, attempts: 0 };
  emit(simulation, { type: 'tool.failed', actor: 'system', step, payload: failed });
}

function request(simulation: Simulation, wish: { place: number; step: number; isPlan: boolean }): void {
  const { place, step, isPlan } = wish;
  const { pick } = simulation;
  const id = fixedId(`call ${simulation.ids++}`);
  const mode = (['pure', 'inline', 'queued', 'wait'] as const)[pick(4)] ?? 'pure';
  const refused = mode === 'queued' && pick(4) === 3;
  const payload = { tool_call_id: id, tool_use_id: id, place, name: 't', mode, effect: 'unknown' as const };
  emit(simulation, { type: 'tool.requested', actor: 'agent', step, payload });
  const call = { tool_call_id: id };
  if (mode === 'inline') emit(simulation, { type: 'tool.started', actor: 'worker', payload: { ...call, attempt: 1 } });
  const mayAsk = !isPlan && !refused && (mode === 'queued' || mode === 'wait');
  if (mayAsk && pick(3) === 2) askPeople(people(simulation), { id }, 'approval');
  if (refused) emit(simulation, { type: 'tool.denied', actor: 'system', payload: { ...call, error: PROBLEM } });
}

/** Each call may begin another attempt, settle in one of its ways, or take its time. */
function settleSome(simulation: Simulation, calls: readonly CallState[]): void {
  assert.ok(calls.length > 0 && !calls.some(isSettled), 'calls are made that have settled');
  assert.ok(!calls.some((call) => call.mode === 'wait' || call.status === 'awaiting_approval'), 'made unasked');
  for (const { id, attempt, mode, status } of calls) {
    const call = { tool_call_id: id };
    const by = { actor: 'worker' as const };
    const latency_ms = simulation.pick(200);
    const attempts = Math.max(1, attempt);
    if (status === 'pending') {
      emit(simulation, { ...by, type: 'tool.started', payload: { ...call, attempt: attempt + 1 } });
      continue;
    }
    switch (simulation.pick(5)) {
      case 1:
        emit(simulation, { ...by, type: 'tool.failed', payload: { ...call, error: PROBLEM, attempts, latency_ms } });
        break;
      case 2:
        emit(simulation, { ...by, type: 'tool.unknown', payload: { ...call, error: PROBLEM, attempts } });
        break;
      case 3:
        if (mode !== 'pure')
          emit(simulation, { ...by, type: 'tool.started', payload: { ...call, attempt: attempt + 1 } });
        break;
      case 4:
        break;
      default:
        emit(simulation, { ...by, type: 'tool.succeeded', payload: { ...call, latency_ms, output_bytes: 1 } });
    }
  }
}

function completeTurn(simulation: Simulation, end: Extract<Decision, { kind: 'complete_turn' }>): void {
  const { state } = simulation;
  assert.ok(state.calls.every(isSettled), 'a turn completes before its calls have settled');
  become(simulation, 'reflecting', state.keepOpen ? 'awaiting_human' : 'completed');
  if (!state.keepOpen) {
    const payload = { stop_reason: end.stopReason, output_ordinal: end.ordinal };
    emit(simulation, { type: 'run.completed', actor: 'worker', payload });
  }
  const payload = { stop_reason: end.stopReason, ordinal: end.ordinal };
  emit(simulation, { type: 'turn.completed', actor: 'worker', payload });
}

function failTurn(simulation: Simulation): void {
  assert.equal(madeByWorkers(simulation.state).length, 0, 'a turn fails while workers make its calls');
  completePlan(people(simulation), simulation.state);
  if (simulation.state.keepOpen) {
    become(simulation, 'awaiting_human');
  } else {
    become(simulation, 'failed');
    emit(simulation, { type: 'run.failed', actor: 'worker', payload: { error: PROBLEM } });
  }
  emit(simulation, { type: 'turn.failed', actor: 'worker', payload: { error: PROBLEM } });
}

function cancel(simulation: Simulation): void {
  const open = simulation.state.turn !== null;
  emit(simulation, { type: 'run.cancel_requested', actor: 'user', payload: {} });
  become(simulation, 'cancelled');
  emit(simulation, { type: 'run.cancelled', actor: 'user', payload: {} });
  if (open) emit(simulation, { type: 'turn.interrupted', actor: 'user', payload: { reason: 'cancel' } });
}

function become(simulation: Simulation, ...way: RunStatus[]): void {
  for (const to of way) {
    const from = simulation.state.status;
    assert.ok(mayBecome(from, to), `the decision leads from ${from} to ${to}`);
    emit(simulation, { type: 'run.status_changed', actor: 'worker', payload: { from, to } });
  }
}

function emit(simulation: Simulation, event: NewEvent): void {
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
