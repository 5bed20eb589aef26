/** A platform with a scripted model and a world of tools, and what tests do with forks of runs. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { ROUTES } from '../../api/routes.ts';
import { assertAsDescribed, request, type Answer, type Call } from './api.ts';
import type { Mode } from './modes.ts';
import { openTestPlatform, type TestPlatform } from './platform.ts';
import { createAgent, readLog, startRun, toolOf, untilRun, type LogEvent } from './runs.ts';
import { startScriptedModel, type ScriptedModel } from './scripted-model.ts';
import { waitUntil } from './wait-until.ts';
import { startWorld, type World } from './world.ts';

/** Opens everything before the tests of the suite that calls it, and closes it after them. Each test has a label of its own. */
export function useReplayKit(mode: Mode) {
  const parts = {
    platform: undefined as unknown as TestPlatform,
    model: undefined as unknown as ScriptedModel,
    world: undefined as unknown as World,
    /** An agent that saves a checkpoint at every step. */
    agent: '',
    label: '',
  };
  const call = async (method: string, path: string, options: Call = {}): Promise<Answer> => {
    const { url, apiKey } = parts.platform;
    const answer = await request(`${url}${path}`, method, { key: apiKey, ...options });
    assertAsDescribed(ROUTES, `${method} ${path}`, answer);
    return answer;
  };
  before(async () => {
    [parts.model, parts.world] = [await startScriptedModel(), await startWorld()];
    parts.platform = await openTestPlatform(mode, {
      workers: true,
      api: true,
      env: { ANTHROPIC_BASE_URL: parts.model.url, ANTHROPIC_API_KEY: 'test', DROVER_EGRESS_ALLOW: '127.0.0.1' },
    });
    const execution_config = { checkpoint_frequency: 'on_change' };
    parts.agent = await createAgent({ call, world: parts.world }, { execution_config });
  });
  after(async () => {
    await parts.platform.close();
    await Promise.all([parts.model.close(), parts.world.close()]);
  });
  beforeEach(() => {
    parts.label = randomUUID();
  });
  const tool = (name: 'lookup' | 'record' | 'charge', more: object = {}) =>
    `${toolOf(parts.agent, name)} ${JSON.stringify({ label: parts.label, ...more })}`;
  const begin = (message: string, by = parts.agent) => startRun({ call }, by, message);
  const made = () => parts.world.deliveries(parts.label).length;
  return Object.assign(parts, { call, tool, begin, made, ...requestsOf(call, parts), ...checksOf(call) });
}

type CallApi = (method: string, path: string, options?: Call) => Promise<Answer>;

function requestsOf(call: CallApi, parts: { agent: string }) {
  const post = (path: string, body: unknown = {}, headers: Record<string, string> = {}) =>
    call('POST', path, { body, headers });
  const get = async (path: string) => (await call('GET', path)).json;
  return {
    post,
    get,
    checkpointsOf: async (run: string) => (await get(`/v1/runs/${run}/checkpoints`)).checkpoints,
    done: (run: string) => untilRun({ call }, run),
    settled: (run: string) => untilRun({ call }, run, { states: ['awaiting_human', 'completed', 'failed'] }),
    /** Starts a replay that must be accepted; answers what it said. */
    replay: async (run: string, body: Record<string, unknown>) => {
      const answer = await post(`/v1/runs/${run}/replay`, body);
      assert.equal(answer.status, 202, answer.text);
      return answer.json;
    },
    callsOf: async (run: string) => {
      const { turns } = await get(`/v1/runs/${run}/turns`);
      const details = await Promise.all(turns.map((turn: { id: string }) => get(`/v1/runs/${run}/turns/${turn.id}`)));
      return details.flatMap((detail) => detail.tool_calls);
    },
    openRun: async (of = parts.agent): Promise<string> => {
      const { status, json } = await post(`/v1/agents/${of}/runs`, {});
      assert.equal(status, 201);
      return json.run_id;
    },
    take: async (run: string, message: string) => {
      const { status, json, text } = await post(`/v1/runs/${run}/turns`, { input: { message } });
      assert.equal(status, 200, text);
      return json;
    },
  };
}

function checksOf(call: CallApi) {
  return {
    responses: async (run: string) =>
      (await readLog({ call }, run)).filter(({ type }) => type === 'model.responded').map(({ payload }) => payload),
    /** The log, once the run asks a person about a call of unknown outcome. */
    untilAsked: async (run: string): Promise<LogEvent[]> => {
      let log: LogEvent[] = [];
      await waitUntil('the run asks about the call', async () => {
        log = await readLog({ call }, run);
        return log.some(({ type }) => type === 'approval.requested');
      });
      return log;
    },
    /** A log without gaps, statuses that follow each other, steps that count on, and checkpoints that fit. */
    assertSoundFork: async (run: string, firstStep: number): Promise<void> => {
      const log = await readLog({ call }, run);
      assert.deepEqual(
        log.map(({ seq }) => seq),
        log.map((_, index) => index + 1),
      );
      assert.deepEqual(
        log.slice(0, 2).map(({ type }) => type),
        ['run.created', 'run.forked'],
      );
      const statuses = log.filter(({ type }) => type === 'run.status_changed').map(({ payload }) => payload);
      statuses.forEach(({ from }, index) => assert.equal(from, statuses[index - 1]?.['to'] ?? 'created'));
      const steps = log.filter(({ type }) => type === 'model.responded').map(({ step }) => step);
      const from = steps[0] ?? firstStep;
      assert.ok(from >= firstStep);
      assert.deepEqual(
        steps,
        steps.map((_, index) => from + index),
      );
      assert.ok(!log.some(({ type }) => type === 'checkpoint.corrupt'));
    },
  };
}
