/** The services that benchmarks run on: those of the environment, else the private ones of `scripts/services.sh`. */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface Services {
  databaseUrl: string;
  redisUrl: string;
}

/** Throws where there are none; `scripts/services.sh up` starts some. */
export function benchServices(): Services {
  const script = fileURLToPath(new URL('../scripts/services.sh', import.meta.url));
  const lines = execFileSync(script, ['env'], { encoding: 'utf8' }).split('\n');
  const value = (name: string) => lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1);
  const databaseUrl = value('DATABASE_URL');
  const redisUrl = value('REDIS_URL');
  if (!databaseUrl || !redisUrl) throw new Error('No services: run scripts/services.sh up first.');
  return { databaseUrl, redisUrl };
}
