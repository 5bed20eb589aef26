/** Everything in one process: the API and the workers. Without any setting it needs no service (embedded mode). */
import pc from 'picocolors';
import { loadConfig, type Config } from '../config.ts';
import { ROUTES } from '../api/routes.ts';
import { serve } from '../api/serve.ts';
import { openPlatform } from '../services/open-platform.ts';
import { runProcess } from '../services/run-process.ts';
import { startWorkers } from '../workers/start-workers.ts';

await runProcess(async () => {
  const config = loadConfig();
  const platform = await openPlatform(config);
  const workers = await startWorkers(platform.context);
  const api = await serve(platform.context, ROUTES, config);
  process.stderr.write(banner(config, { url: api.url, apiKey: platform.apiKey, model: platform.context.models.defaultName() }));
  return async () => {
    await api.close(config.shutdownGraceMs);
    await workers.stop(config.shutdownGraceMs);
    await platform.close();
  };
});

interface Running {
  url: string;
  apiKey: string | undefined;
  model: string;
}

/** Where things are, and a command that works when it is pasted. */
function banner(config: Config, { url, apiKey, model }: Running): string {
  const data = config.mode === 'embedded' ? `embedded, data in ${config.dataDir}` : config.mode;
  const offline = model === 'offline' ? ' (a planner for trials; set ANTHROPIC_API_KEY for a real model)' : '';
  const lines = [
    '',
    `${pc.bold('Drover')} is up (${data})`,
    `  API          ${url}`,
    `  OpenAPI      ${url}/openapi.json`,
    `  queues       ${url}/admin/queues`,
    `  health       ${url}/readyz`,
    `  model        ${model}${offline}`,
    apiKey === undefined ? '  key          one of your API keys' : `  key          ${apiKey}`,
    '',
    'Try it:',
    '',
    ...tryIt(url, apiKey ?? '$DROVER_API_KEY'),
    '',
    '',
  ];
  return lines.join('\n');
}

function tryIt(url: string, key: string): string[] {
  const post = (path: string, body: string) => `curl -s ${url}${path} -H 'Authorization: Bearer ${key}' --json '${body}'`;
  return [
    `  AGENT=$(${post('/v1/agents', '{"name":"first","tools":["calculator"]}')} | sed 's/.*"agent_id":"\\([^"]*\\)".*/\\1/'); \\`,
    `  RUN=$(${post('/v1/agents/$AGENT/runs', '{}').replace(`${url}/v1/agents/$AGENT/runs`, `"${url}/v1/agents/$AGENT/runs"`)} | sed 's/.*"run_id":"\\([^"]*\\)".*/\\1/'); \\`,
    `  ${post('/v1/runs/$RUN/turns', '{"input":{"message":"What is 12 * 34 + 5?"}}').replace(`${url}/v1/runs/$RUN/turns`, `"${url}/v1/runs/$RUN/turns"`)}`,
  ];
}
