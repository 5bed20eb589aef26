/** Reads data and tasks of tau2-bench's retail domain from a checkout or its git directory. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { ShopData } from './shop.ts';

export interface Task {
  id: string;
  /** The actions to take, in order. */
  actions: { name: string; arguments: Record<string, unknown> }[];
}

interface Tau2Task {
  id: string;
  evaluation_criteria: { actions?: Task['actions'] | null } | null;
}

const FOLDER = 'data/tau2/domains/retail';
const MOST_BYTES = 64 << 20;
const run = promisify(execFile);

/** Throws if the directory lacks them. */
export async function readTau2(dir: string): Promise<{ data: ShopData; tasks: Task[] }> {
  const data = (await readJson(dir, 'db.json')) as ShopData;
  const tasks = (await readJson(dir, 'tasks.json')) as Tau2Task[];
  return {
    data,
    tasks: tasks.map(({ id, evaluation_criteria: criteria }) => ({
      id,
      actions: (criteria?.actions ?? []).map(({ name, arguments: args }) => ({ name, arguments: args })),
    })),
  };
}

async function readJson(dir: string, name: string): Promise<unknown> {
  const path = join(dir, FOLDER, name);
  if (existsSync(path)) return JSON.parse(await readFile(path, 'utf8'));
  const { stdout } = await run('git', ['-C', dir, 'show', `HEAD:${FOLDER}/${name}`], { maxBuffer: MOST_BYTES });
  return JSON.parse(stdout);
}
