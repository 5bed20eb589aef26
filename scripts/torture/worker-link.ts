/** The connections of one worker to the services: they can be cut while all others keep theirs. */
import { openServiceProxy, type ServiceProxy } from '../kit/service-proxy.ts';

export interface WorkerLink {
  /** Where the worker finds the services. */
  env: Record<string, string>;
  cut: () => Promise<void>;
  restore: () => Promise<void>;
}

const SERVICES = ['DATABASE_URL', 'REDIS_URL'] as const;

/** Opens a proxy before each service that `env` names. `cut` closes it, too. */
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
