/** One worker's connections to the services, which can be cut without affecting others. */
import { openServiceProxy, type ServiceProxy } from '../kit/service-proxy.ts';

export interface WorkerLink {
  /** Variables with the services' addresses for the worker. */
  env: Record<string, string>;
  cut: () => Promise<void>;
  restore: () => Promise<void>;
}

const SERVICES = ['DATABASE_URL', 'REDIS_URL'] as const;

/** Opens a proxy for each service in `env`. `cut` closes it, too. */
export async function openWorkerLink(env: Readonly<Record<string, string>>): Promise<WorkerLink> {
  const proxies = new Map<string, ServiceProxy>();
  for (const name of SERVICES) {
    const url = env[name];
    if (url !== undefined) proxies.set(name, await openServiceProxy(url));
  }
  const all = [...proxies.values()];
  return {
    env: Object.fromEntries([...proxies].map(([name, { url }]) => [name, url])),
    cut: async () => void (await Promise.all(all.map((proxy) => proxy.cut()))),
    restore: async () => void (await Promise.all(all.map((proxy) => proxy.restore()))),
  };
}
