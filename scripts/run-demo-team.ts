/** The demo of a team: `npm run demo:team`. */
import { messageOf } from '../core/errors.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from './cli/client.ts';
import { followWorkflow } from './cli/follow-workflow.ts';
import { createApiClient, type ApiClient } from './demo/api-client.ts';
import { createPlatformProcess, type PlatformProcess } from './demo/platform-process.ts';
import { missingFacts, teamFacts } from './demo/right-answers.ts';
import { createScreen, type Screen } from './demo/screen.ts';
import {
  ANALYSIS_EXAMPLE,
  COMPARISON_EXAMPLE,
  PLAN_EXAMPLE,
  TEAM_QUESTION,
  WRITING_EXAMPLE,
} from './demo-team-question.ts';
import { optionsOf } from './kit/options-of.ts';
import { NODE_ARGS, programOf } from './kit/programs.ts';

const HELP = `usage: npm run demo:team

Starts Drover in embedded mode in a temporary directory. A planner splits a question over a data set of cars into six
subtasks, which three agents do as soon as what they need is there: the tree is drawn as they go on.

With ANTHROPIC_API_KEY or OPENAI_API_KEY a real model plans and answers, else the offline one, which follows worked
examples word by word. Ends with 0 where the answer is right, else with 1.
`;

const values = optionsOf('demo:team', { help: { type: 'boolean', short: 'h' } });
if (values.help) process.stdout.write(HELP);
else process.exit(await run());

async function run(): Promise<number> {
  const dir = mkdtempSync(join(tmpdir(), 'drover-demo-'));
  const platform = await createPlatformProcess(dir, process.env);
  // Cleans up, however the demo ends.
  process.once('exit', () => {
    platform.killNow();
    rmSync(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
  process.stdout.once('error', () => process.exit(1));
  const screen = createScreen(process.stdout);
  try {
    return await play(screen, platform);
  } catch (error) {
    screen.verdict(messageOf(error), false);
    return 1;
  } finally {
    await platform.stop();
  }
}

async function play(screen: Screen, platform: PlatformProcess): Promise<number> {
  screen.title('Drover: a question for several agents');
  screen.say('  Starting Drover in embedded mode: one process, nothing else to install …');
  const { pid, ms } = await platform.start();
  screen.line('process', `${pid}, ready in ${(ms / 1000).toFixed(1)} s, ${platform.url}`);
  const client = createApiClient(platform);
  const planner = await setUp(client, screen);
  screen.question(TEAM_QUESTION);
  const { id } = await client.post<{ id: string }>('/v1/workflows', {
    name: 'fuel economy',
    agent_id: planner,
    input: { user_query: TEAM_QUESTION },
  });
  const done = await followWorkflow(createClient({ url: platform.url, key: platform.key }), id, { isQuiet: false });
  const { usage } = await client.get<{ usage: { tokens_in: number; tokens_out: number } }>(`/v1/workflows/${id}`);
  screen.say();
  screen.line('run', id);
  screen.line('took', `${done.tasks.length} subtasks, ${usage.tokens_in} tokens in, ${usage.tokens_out} out`);
  if (done.status !== 'completed') {
    screen.verdict(`The workflow is ${done.status}: ${done.error?.message ?? ''}`, false);
    return 1;
  }
  const missing = missingFacts(done.result ?? '', teamFacts(), !hasModel(process.env));
  screen.verdict(
    missing.length > 0 ? `The answer is wrong: it lacks ${missing.join(', ')}.` : 'The answer is right.',
    missing.length === 0,
  );
  return missing.length === 0 ? 0 : 1;
}

/** Registers three agents with their capabilities, and a planner; returns the planner's id. */
async function setUp(client: ApiClient, screen: Screen): Promise<string> {
  await client.post('/v1/tools/import', {
    transport: {
      type: 'stdio',
      command: process.execPath,
      args: [...NODE_ARGS, programOf('scripts/demo-data-server')],
      env: {},
    },
    trusted: true,
  });
  const make = async (name: string, fields: Record<string, unknown>) =>
    (await client.post<{ agent_id: string }>('/v1/agents', { name, ...fields })).agent_id;
  const can = (skill_name: string) => [{ skill_name, proficiency: 0.9 }];
  const prompt = (role: string, ...examples: unknown[]) => ({ role, examples });
  await make('analyst', {
    capabilities: can('data_analysis'),
    tools: ['filter_rows', 'aggregate'],
    system_prompt: prompt('You find numbers in a data set of cars. Answer with the number alone.', ANALYSIS_EXAMPLE),
  });
  await make('comparer', {
    capabilities: can('comparison'),
    tools: ['compare'],
    system_prompt: prompt(
      'You compare two numbers. Name both, their difference and the percentage.',
      COMPARISON_EXAMPLE,
    ),
  });
  await make('writer', {
    capabilities: can('writing'),
    tools: [],
    system_prompt: prompt('You write one sentence with all the numbers that you are given.', WRITING_EXAMPLE),
  });
  screen.line(
    'agents',
    'analyst (filter_rows, aggregate), comparer (compare), writer; 406 cars of 1970 to 1982, from vega-datasets',
  );
  return make('planner', {
    tools: [],
    system_prompt: prompt('You split questions about a data set of cars, one number a subtask.', PLAN_EXAMPLE),
  });
}

function hasModel(env: NodeJS.ProcessEnv): boolean {
  const { ANTHROPIC_API_KEY: anthropic, OPENAI_API_KEY: openai, DROVER_MODEL: model } = env;
  return model ? model !== 'offline' : Boolean(anthropic || openai);
}
