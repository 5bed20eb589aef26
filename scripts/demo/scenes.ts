/** The demo's two scenes: an agent at work, and a crash without consequences. */
import { setTimeout as delay } from 'node:timers/promises';
import { readEffects } from '../demo-effects.ts';
import { FUEL_EXAMPLE, FUEL_QUESTION, PUBLISH_EXAMPLE, PUBLISH_QUESTION } from '../demo-question.ts';
import { NODE_ARGS, programOf } from '../kit/programs.ts';
import type { ApiClient } from './api-client.ts';
import { followRun, type Followed } from './follow-run.ts';
import type { PlatformProcess } from './platform-process.ts';
import { fuelFacts, missingFacts, publishFacts } from './right-answers.ts';
import type { Screen, ToolCall } from './screen.ts';

const PUBLISH_MS = 1500;

export interface Stage {
  client: ApiClient;
  platform: PlatformProcess;
  screen: Screen;
  /** Whether the offline planner answers: exactly, so that every number can be checked. */
  offline: boolean;
  effectsFile: string;
  /** Fires when the demo takes too long. */
  signal: AbortSignal;
}

/** Imports the demo's MCP server and registers an agent with its tools and two worked examples; returns the agent's id. */
export async function setUpAgent({ client, screen, effectsFile }: Stage): Promise<string> {
  const { tools } = await client.post<{ tools: { name: string }[] }>('/v1/tools/import', {
    transport: {
      type: 'stdio',
      command: process.execPath,
      args: [...NODE_ARGS, programOf('scripts/demo-data-server')],
      env: { DEMO_EFFECTS_FILE: effectsFile, DEMO_PUBLISH_DELAY_MS: String(PUBLISH_MS) },
    },
    trusted: true,
  });
  const names = tools.map(({ name }) => name);
  screen.line('tools', `${names.join(', ')} (an MCP server over stdio; 406 cars of 1970 to 1982, from vega-datasets)`);
  const agent = await client.post<{ agent_id: string }>('/v1/agents', {
    name: 'car-analyst',
    system_prompt: {
      role: 'You answer questions about a data set of cars.',
      instructions:
        'Use the tools for every number. Answer in one or two sentences, with the numbers as the tools give them.',
      examples: [FUEL_EXAMPLE, PUBLISH_EXAMPLE],
    },
    tools: names,
  });
  screen.line('agent', `car-analyst, with these tools and two worked examples`);
  return agent.agent_id;
}

/** Asks a question that takes five calls, each based on an earlier result. Returns whether the answer is right. */
export async function answerQuestion(stage: Stage, agentId: string): Promise<boolean> {
  const runId = await ask(stage, agentId, FUEL_QUESTION);
  const followed = await followRun(stage, runId, { signal: stage.signal });
  return conclude(stage, { runId, followed, facts: fuelFacts() });
}

/** Kills the process during a call that has had its effect, and restarts it on the same data. */
export async function surviveCrash(stage: Stage, agentId: string): Promise<boolean> {
  const { screen, platform, effectsFile, signal } = stage;
  const runId = await ask(stage, agentId, PUBLISH_QUESTION);
  const shown = new Set<string>();
  const watched = { ...screen, toolCall: (call: ToolCall) => (screen.toolCall(call), void shown.add(call.tool)) };
  const watching = followRun({ client: stage.client, screen: watched }, runId, { signal });
  const isOut = () => shown.has('publish_report') && readEffects(effectsFile).length > 0;
  const published = await holdsBeforeEnd(isOut, watching);
  await platform.kill();
  const before = await watching;
  if (!published || before.answered.includes('publish_report')) {
    screen.verdict('The run had no call of publish_report to kill the process in.', false);
    return false;
  }
  screen.crash('SIGKILL: the report is out, its call has not answered, and the process is dead.');
  const { pid, ms } = await platform.start();
  screen.say(`  Started again on the same data: process ${pid}, ready in ${seconds(ms)}. The run goes on.\n`);
  const followed = await followRun(stage, runId, { lastEventId: before.lastEventId, signal });
  const right = await conclude(stage, { runId, followed, facts: publishFacts() });
  const sent = await timesSent(stage, runId);
  screen.say(`  publish_report was sent ${sent} times with one idempotency key.`);
  const effects = readEffects(effectsFile).length;
  screen.verdict(`effect counted: ${effects} time(s)`, effects === 1);
  return right && effects === 1;
}

async function ask({ client, screen }: Stage, agentId: string, question: string): Promise<string> {
  screen.question(question);
  const body = { input: { message: question } };
  return (await client.post<{ run_id: string }>(`/v1/agents/${agentId}/runs`, body)).run_id;
}

/** True once the condition holds; false if the stream ended before. */
async function holdsBeforeEnd(holds: () => boolean, watching: Promise<Followed>): Promise<boolean> {
  let over = false;
  const end = () => (over = true);
  void watching.then(end, end);
  while (!holds()) {
    if (over) return false;
    await delay(10);
  }
  return true;
}

async function conclude(
  { client, screen, offline }: Stage,
  shown: { runId: string; followed: Followed; facts: readonly string[] },
): Promise<boolean> {
  const { runId, followed, facts } = shown;
  const { end } = followed;
  const run = await client.get<Run>(`/v1/runs/${runId}`);
  const { tokens_in, tokens_out, cost_usd } = run.usage;
  const cost = cost_usd === null ? 'cost unknown' : `$${cost_usd}`;
  if (end?.status === 'complete') screen.answer(end.message);
  else screen.verdict(`\nThe run is ${run.status}: ${end?.error ?? 'its stream ended without an answer'}`, false);
  screen.line('run', runId);
  screen.line('took', `${run.steps} steps, ${tokens_in} tokens in, ${tokens_out} out, ${cost}`);
  if (end?.status !== 'complete') return false;
  const missing = missingFacts(end.message, facts, offline);
  if (missing.length > 0) screen.verdict(`The answer is wrong: it lacks ${missing.join(', ')}.`, false);
  return missing.length === 0;
}

interface Run {
  status: string;
  steps: number;
  usage: { tokens_in: number; tokens_out: number; cost_usd: number | null };
}

async function timesSent({ client }: Stage, runId: string): Promise<number> {
  const { turns } = await client.get<{ turns: { turn_id: string }[] }>(`/v1/runs/${runId}/turns`);
  const calls = await Promise.all(
    turns.map(({ turn_id }) =>
      client.get<{ tool_calls: { tool: string; attempt: number }[] }>(`/v1/runs/${runId}/turns/${turn_id}`),
    ),
  );
  const published = calls.flatMap(({ tool_calls }) => tool_calls).filter(({ tool }) => tool === 'publish_report');
  return published.reduce((sum, { attempt }) => sum + attempt, 0);
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
