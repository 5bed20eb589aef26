/** Two webhook endpoints: one accepts everything, the other never answers. */
import { startLocalServer, type LocalServer } from './local-server.ts';
import type { RetryingClient } from './client.ts';

export interface HookServer extends LocalServer {
  /** Runs whose end was reported to the answering endpoint. */
  told: Set<string>;
}

export async function startHookServer(): Promise<HookServer> {
  const told = new Set<string>();
  const server = await startLocalServer(({ path, body, response }) => {
    const { data } = body as { data: { run_id: string } };
    if (path !== '/tarpit') {
      told.add(data.run_id);
      response.writeHead(204).end();
    }
    return Promise.resolve();
  });
  return { ...server, told };
}

/** Registers the tarpit first, so that it is served first. */
export async function createWebhooks(client: RetryingClient, { url }: HookServer): Promise<void> {
  for (const name of ['tarpit', 'healthy']) {
    await client.post('/v1/webhooks', { url: `${url}/${name}`, events: ['run.completed'] }, `webhook-${name}`);
  }
}
