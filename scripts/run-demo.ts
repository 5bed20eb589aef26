/** The demo. Its scenes are in scripts/demo/scenes.ts. */
import { messageOf } from '../core/errors.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createApiClient } from './demo/api-client.ts';
import { createPlatformProcess, type PlatformProcess } from './demo/platform-process.ts';
import { answerQuestion, seconds, setUpAgent, surviveCrash, type Stage } from './demo/scenes.ts';
import { createScreen, type Screen } from './demo/screen.ts';
import { optionsOf } from './kit/options-of.ts';

const HELP = `usage: npm run demo [-- --keep]

Starts Drover in embedded mode in a temporary directory and shows, in less than a minute:
  1. an agent that answers a question with five tool calls, live from its event stream;
  2. the process killed with SIGKILL in the middle of a call with an effect, started again, and the effect counted.

  --keep   leaves the service running at the end, until Ctrl-C
  --help   this text

With ANTHROPIC_API_KEY or OPENAI_API_KEY a real model answers, else the offline planner, which follows worked examples
word by word. Ends with 0 where both answers are right and the effect was counted once, else with 1.
`;

const OFFLINE_LIMIT_MS = 300_000;
const MODEL_LIMIT_MS = 600_000;

const OFFLINE_NOTE =
  'none: the offline planner follows worked examples word by word. For a real model set ANTHROPIC_API_KEY or OPENAI_API_KEY.';

const values = optionsOf('demo', { keep: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } });
if (values.help) process.stdout.write(HELP);
else process.exit(await run(values.keep === true));

async function run(keep: boolean): Promise<number> {
  const dir = mkdtempSync(join(tmpdir(), 'drover-demo-'));
  const platform = await createPlatformProcess(dir, process.env);
  // Cleans up, however the demo ends.
  process.once('exit', () => {
    platform.killNow();
    rmSync(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  });
  const interrupted = interruption(platform);
  // The reader of the output has left.
  process.stdout.once('error', () => process.exit(1));
  const screen = createScreen(process.stdout);
  try {
    const code = await Promise.race([play(screen, platform, dir), interrupted]);
    if (code !== 0) return code;
    if (keep) return await serveOn(screen, platform, interrupted);
    screen.say('  `npm run demo -- --keep` leaves the service running, and prints its key and addresses.');
    return 0;
  } catch (error) {
    screen.verdict(messageOf(error), false);
    return 1;
  } finally {
    await platform.stop();
  }
}

async function play(screen: Screen, platform: PlatformProcess, dir: string): Promise<number> {
  const since = performance.now();
  screen.title('Drover: an agent at work, and what a crash does to it');
  screen.say('  Starting Drover in embedded mode: one process, nothing else to install …');
  const { pid, ms } = await platform.start();
  const offline = !hasModel(process.env);
  const client = createApiClient(platform);
  const signal = AbortSignal.timeout(offline ? OFFLINE_LIMIT_MS : MODEL_LIMIT_MS);
  const stage: Stage = { client, platform, screen, offline, effectsFile: join(dir, 'effects.jsonl'), signal };
  screen.line('process', `${pid}, ready in ${seconds(ms)}, ${platform.url}`);
  screen.line('model', offline ? OFFLINE_NOTE : 'as your environment says');
  const agentId = await setUpAgent(stage);
  const answered = await answerQuestion(stage, agentId);
  screen.title('\nThe promise: nothing is lost, nothing happens twice');
  screen.say(
    '  publish_report has an effect, which a file counts. It is declared idempotent: it may be sent again with its key.',
  );
  const survived = await surviveCrash(stage, agentId);
  screen.say(`\n  All of it took ${seconds(performance.now() - since)}.`);
  return answered && survived ? 0 : 1;
}

function hasModel(env: NodeJS.ProcessEnv): boolean {
  const { ANTHROPIC_API_KEY: anthropic, OPENAI_API_KEY: openai, DROVER_MODEL: model } = env;
  return model ? model !== 'offline' : Boolean(anthropic || openai);
}

/** Settles with 130 at the first Ctrl-C or SIGTERM; the second ends the demo at once. */
function interruption(platform: PlatformProcess): Promise<number> {
  return new Promise((resolve) => {
    const onSignal = (signal: NodeJS.Signals) => {
      process.once(signal, () => process.exit(130));
      void platform.stop();
      resolve(130);
    };
    process.once('SIGINT', onSignal);
    process.once('SIGTERM', onSignal);
  });
}

async function serveOn(screen: Screen, platform: PlatformProcess, interrupted: Promise<number>): Promise<number> {
  screen.title('\nStill running, until Ctrl-C');
  screen.line('key', platform.key);
  screen.line('queues', `${platform.url}/admin/queues (sign in with the key)`);
  screen.line('log', platform.logFile);
  screen.say(`\n  curl -s ${platform.url}/v1/runs -H 'Authorization: Bearer ${platform.key}'\n`);
  await interrupted;
  return 0;
}
