/** `npm run patterns`: runs each pattern of cooperation, and draws the results. See docs/patterns.md. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '../core/errors.ts';
import { createApiClient, type ApiClient } from './demo/api-client.ts';
import { createPlatformProcess } from './demo/platform-process.ts';
import { optionsOf } from './kit/options-of.ts';
import { AGENTS, PATTERNS, type World } from './patterns/play.ts';

const HELP = `usage: npm run patterns

Starts Drover in embedded mode in a temporary directory, with the offline model, has agents work together in each of the
ways of docs/patterns.md, and prints the pictures of the runs, in Mermaid.
`;
const PAUSE_MS = 200;
const PATIENCE_MS = 120_000;

const values = optionsOf('patterns', { help: { type: 'boolean', short: 'h' } });
if (values.help) process.stdout.write(HELP);
else process.exit(await main());

async function main(): Promise<number> {
  const dir = mkdtempSync(join(tmpdir(), 'drover-patterns-'));
  const platform = await createPlatformProcess(dir, { ...process.env, DROVER_MODEL: 'offline' });
  process.once('exit', () => {
    platform.killNow();
    rmSync(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
  try {
    await platform.start();
    const world = await openWorld(createApiClient(platform));
    for (const { name, play } of PATTERNS) {
      process.stdout.write(`## ${name}\n\n\`\`\`mermaid\n${await play(world)}\n\`\`\`\n\n`);
    }
    return 0;
  } catch (error) {
    process.stderr.write(`patterns: ${messageOf(error)}\n`);
    return 1;
  } finally {
    await platform.stop();
  }
}

async function openWorld(client: ApiClient): Promise<World> {
  const ids = new Map<string, string>();
  for (const agent of AGENTS) ids.set(agent.name, (await client.post<{ id: string }>('/v1/agents', agent)).id);
  const names = new Map([...ids].map(([name, id]) => [id, name]));
  return {
    client,
    idOf: (name) => ids.get(name) ?? '',
    nameOf: (id) => names.get(id) ?? id,
    async ended(path) {
      const endsAtMs = performance.now() + PATIENCE_MS;
      for (;;) {
        const found = await client.get<{ status: string }>(path);
        if (found.status === 'completed') return found as never;
        const isOver = ['failed', 'cancelled', 'rejected'].includes(found.status) || performance.now() > endsAtMs;
        if (isOver) throw new Error(`${path} is ${found.status}: ${JSON.stringify(found)}`);
        await delay(PAUSE_MS);
      }
    },
  };
}
