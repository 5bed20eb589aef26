import pc from 'picocolors';
import { loadConfig, type Config } from '../config.ts';
import { ROUTES } from '../api/routes.ts';
import { portOfApi, serve } from '../api/serve.ts';
import { ensureFirstRun } from '../modules/platform/first-steps.ts';
import { runProcess } from '../modules/platform/run-process.ts';
import { startWorkers } from '../workers/start-workers.ts';

const program = { load: loadConfig, listens: portOfApi };

/** Runs API and workers in one process. Without settings they need no service (embedded mode). */
export async function runEverything(): Promise<void> {
  await runProcess(program, async ({ context, apiKey, closers }) => {
    const { config, log } = context;
    const workers = await startWorkers(context);
    const { shutdownGraceMs: graceMs } = config;
    let stopping: Promise<void> | undefined;
    const stopWorkers = () => (stopping ??= workers.stop(graceMs));
    closers.add('workers', stopWorkers, { graceMs });
    const api = await serve(context, ROUTES, config);
    // Concurrently: in sequence, the second would only get the time that the first left.
    const stop = async () => {
      const sinceMs = performance.now();
      log.info('api and workers stopping');
      await Promise.all([api.close(graceMs), stopWorkers()]);
      log.info({ ms: Math.round(performance.now() - sinceMs) }, 'api and workers stopped');
    };
    closers.add('api', stop, { graceMs });
    const first = config.mode === 'embedded' ? await ensureFirstRun(context) : undefined;
    const model = context.models.defaultName();
    process.stderr.write(bannerOf(config, { url: api.url, apiKey, model, runId: first?.runId }));
  });
}

interface Running {
  url: string;
  apiKey: string | undefined;
  model: string;
  /** A run that waits for a message. */
  runId: string | undefined;
}

/** The URLs, the key if Drover has made it, and a command that works when pasted. */
export function bannerOf(config: Config, { url, apiKey, model, runId }: Running): string {
  const embedded = config.mode === 'embedded';
  const isGiven = config.apiKey !== undefined;
  const offline =
    model === 'offline' ? ' (a planner for trials; set ANTHROPIC_API_KEY or OPENAI_API_KEY for a real model)' : '';
  const unused = config.unusedAddresses.map((name) => {
    const key = name.replace('BASE_URL', 'API_KEY');
    return `               ${name} is not used without ${key}, which may be anything where no key is asked for`;
  });
  const lines = [
    '',
    `${pc.bold('Drover')} is up (${embedded ? `embedded, data in ${config.dataDir}` : config.mode})`,
    `  API          ${url}`,
    `  OpenAPI      ${url}/openapi.json`,
    `  queues       ${url}/admin/queues (sign in with the key)`,
    `  health       ${url}/readyz`,
    `  model        ${model}${offline}`,
    ...unused,
    // A key of the environment is not repeated: this may go to a log, which must not contain keys.
    `  key          ${embedded && !isGiven ? apiKey : keyHint(apiKey)}`,
    '',
    ...(runId === undefined || apiKey === undefined
      ? []
      : tryIt(`${url}/v1/runs/${runId}/turns`, isGiven ? '$DROVER_API_KEY' : apiKey)),
  ];
  return lines.join('\n');
}

function keyHint(apiKey: string | undefined): string {
  if (apiKey !== undefined) return 'the one in DROVER_API_KEY; it makes others with POST /v1/api-keys';
  return 'one that was made with POST /v1/api-keys, or the first with: drover keys create';
}

function tryIt(url: string, key: string): string[] {
  // Not --json, which needs curl 7.82: Ubuntu 22.04 has an older one.
  const json = "-H 'Content-Type: application/json' -d";
  const body = '{"input":{"message":"What is 12 * 34 + 5?"}}';
  return ['Try it:', '', `  curl -s ${url} -H "Authorization: Bearer ${key}" ${json} '${body}'`, '', ''];
}
