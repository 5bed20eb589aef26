/**
 * Finds migrations: files of `db/migrations/` with a number as prefix, in numeric order. Forward only: released ones are never
 * edited; a change is a new file with a higher number.
 */
import { readdir } from 'node:fs/promises';
import type { Migration } from './migrations/migration.ts';

const FOLDER = new URL('./migrations/', import.meta.url);

/** Names of all migrations, in order, without loading any, since most starts find nothing to do. */
export async function listMigrations(): Promise<string[]> {
  const names = (await readdir(FOLDER)).flatMap((file) => /^(\d{4}-.+)\.[jt]s$/.exec(file)?.[1] ?? []);
  return names.toSorted();
}

/** @throws an Error if the file does not contain a migration of this name. */
export async function loadMigration(name: string): Promise<Migration> {
  const module = (await import(`./migrations/${name}.ts`)) as Record<string, unknown>;
  const migration = Object.values(module).find(isMigration);
  if (migration?.name === name) return migration;
  throw new Error(`db/migrations/${name} has no migration of this name.`);
}

function isMigration(value: unknown): value is Migration {
  return typeof value === 'object' && value !== null && 'up' in value;
}
