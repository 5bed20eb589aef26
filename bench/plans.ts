/** Time from a model's answer until the user sees its plan, and until an automatic plan begins. */
import { setTimeout as delay } from 'node:timers/promises';
import { ROUTES } from '../api/routes.ts';
import { serve } from '../api/serve.ts';
import { NO_TOKENS, type ModelResponse, type StreamModel } from '../core/model.ts';
import { openDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';
import { chat, watch } from './session-client.ts';
import { quantile } from './work.ts';

const PLANS = 100;
const CALLS = 3;
const WAIT_MS = 10_000;

interface Times {
  /** In ms, from the model's answer to the client. */
  shown: number[];
  /** In ms, from there to the message that execution has started. */
  begun: number[];
}

/** Runs sessions one after the other; every second one executes its plan automatically. */
export async function measurePlans(services: Services): Promise<Figure[]> {
  const answered: number[] = [];
  const drover = await openDrover('committed', services, { stream: planner(answered), autonomyLevel: 3 });
  const api = await serve(drover.context, ROUTES, { host: '127.0.0.1', port: 0 });
  const times: Times = { shown: [], begun: [] };
  try {
    await drover.serve(10);
    for (let n = 0; n < 2 * PLANS; n++) {
      const isAutomatic = n % 2 === 1;
      const talk = { agent_id: drover.agentId, user_id: `user ${n}`, autonomy_level: isAutomatic ? 3 : 0 };
      const { shownMs, begunMs } = await seePlan(api.url, talk);
      times.shown.push(shownMs - (answered.at(-1) ?? Number.NaN));
      if (isAutomatic) times.begun.push(begunMs - shownMs);
    }
  } finally {
    await api.close(1000);
    await drover.close();
  }
  const figure = (what: string, value: number, goal: string) => ({ part: 'live', what, value, unit: 'ms', goal });
  return [
    figure("from the model's answer to its plan at the client, p95", quantile(times.shown, 0.95), '< 100 ms'),
    figure('from there until it executes by itself, p95', quantile(times.begun, 0.95), '< 10 ms'),
  ];
}

/** Answers "yes", or with calls if asked for a plan, and notes when. */
function planner(answered: number[]): StreamModel {
  const base = { provider: 'offline', model: 'stub', usage: { ...NO_TOKENS, input: 10, output: 10 } };
  const calls = Array.from({ length: CALLS }, (_, n) => ({
    type: 'tool_use' as const,
    id: `call_${n}`,
    name: 'add',
    input: { expression: `1 + ${n}` },
  }));
  return async ({ messages }): Promise<ModelResponse> => {
    if (!JSON.stringify(messages.at(-1)).includes('Make a plan'))
      return { ...base, content: [{ type: 'text', text: 'yes' }], stopReason: 'end_turn' };
    answered.push(performance.now());
    return { ...base, content: calls, stopReason: 'tool_use' };
  };
}

interface Seen {
  shownMs: number;
  begunMs: number;
}

/** Begins and watches a session, asks for a plan, and notes when it was shown and begun. A plan that needs approval never begins. */
async function seePlan(url: string, talk: { user_id: string; autonomy_level: number }): Promise<Seen> {
  const session = await chat(url, { ...talk, message: 'Hello' });
  const seen: Seen = { shownMs: Number.NaN, begunMs: Number.NaN };
  let close = () => {};
  const over = new Promise<void>((resolve) => (close = resolve));
  const socket = await watch(url, session, (type) => {
    if (type === 'plan_proposed') seen.shownMs = performance.now();
    if (type === 'execution_started') seen.begunMs = performance.now();
    if (type === (talk.autonomy_level === 0 ? 'waiting_for_approval' : 'execution_started')) close();
  });
  try {
    await chat(url, { session_id: session, user_id: talk.user_id, message: 'Make a plan' });
    await Promise.race([over, delay(WAIT_MS)]);
  } finally {
    socket.terminate();
  }
  return seen;
}
