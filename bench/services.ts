/** The services that benchmarks run on: those that `scripts/services.sh` says are up. */
import { execFileSync } from 'node:child_process';

export interface Services {
  databaseUrl: string;
  redisUrl: string;
}

/** Throws if there are none; `scripts/services.sh up` starts some. The working directory is the repository's. */
export function benchServices(): Services {
  const lines = execFileSync('scripts/services.sh', ['env'], { encoding: 'utf8' }).split('\n');
  const value = (name: string) => lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1);
  const databaseUrl = value('DATABASE_URL');
  const redisUrl = value('REDIS_URL');
  if (!databaseUrl || !redisUrl) throw new Error('No services: run scripts/services.sh up first.');
  return { databaseUrl, redisUrl };
}
