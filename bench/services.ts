/** The services of the benchmarks, as reported by `scripts/services.sh`. */
import { execFileSync } from 'node:child_process';

export interface Services {
  databaseUrl: string;
  redisUrl: string;
}

/** Throws if none are up; `scripts/services.sh up` starts some. Must run in the repository's folder. */
export function benchServices(): Services {
  const lines = execFileSync('scripts/services.sh', ['env'], { encoding: 'utf8' }).split('\n');
  const value = (name: string) => lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1);
  const databaseUrl = value('DATABASE_URL');
  const redisUrl = value('REDIS_URL');
  if (!databaseUrl || !redisUrl) throw new Error('No services: run scripts/services.sh up first.');
  return { databaseUrl, redisUrl };
}
