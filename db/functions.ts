/**
 * The functions of `db/functions/*.sql`. Unlike migrations they are edited in place: a changed file is run again (`create or
 * replace`). Processes of the previous release may still call them, so a function with incompatible arguments or results gets
 * a new name, and the old one stays for one release.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import type { ClientBase } from 'pg';
import { compareVersions } from '../core/semver.ts';
import { VERSION } from '../core/version.ts';
import { MAINTENANCE_ROLE } from './connection-owner.ts';

/** The text of each file that a database has, and the release that applied it. */
export const FUNCTIONS_TABLE = 'schema_functions';
export const READ_FUNCTIONS = `select name, hash, release from ${FUNCTIONS_TABLE}`;

const FOLDER = new URL('./functions/', import.meta.url);

export interface AppliedFunctions {
  name: string;
  hash: string;
  release: string;
}

interface FunctionFile {
  name: string;
  text: string;
  hash: string;
}

/** Files whose text differs from the database's. Files applied by a newer release are skipped. */
export async function outdatedFunctions(applied: readonly AppliedFunctions[]): Promise<FunctionFile[]> {
  const files = await readFunctions();
  return files.filter(({ name, hash }) => {
    const known = applied.find((row) => row.name === name);
    return !known || (known.hash !== hash && compareVersions(known.release, VERSION) <= 0);
  });
}

/** Runs the changed files in one transaction, and returns their names. `client` is the owner's. */
export async function applyFunctions(client: ClientBase): Promise<string[]> {
  await client.query(`create table if not exists ${FUNCTIONS_TABLE} (name text primary key, hash text not null,
    release text not null); grant select on ${FUNCTIONS_TABLE} to ${MAINTENANCE_ROLE}`);
  const { rows } = await client.query<AppliedFunctions>(READ_FUNCTIONS);
  const outdated = await outdatedFunctions(rows);
  if (outdated.length === 0) return [];
  await client.query('begin');
  try {
    // A function may call one of a later file.
    await client.query('set local check_function_bodies = off');
    for (const { name, text, hash } of outdated) {
      await client.query(text);
      await client.query(
        `insert into ${FUNCTIONS_TABLE} (name, hash, release) values ($1, $2, $3)
           on conflict (name) do update set hash = excluded.hash, release = excluded.release`,
        [name, hash, VERSION],
      );
    }
    await client.query('commit');
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
  return outdated.map(({ name }) => name);
}

async function readFunctions(): Promise<FunctionFile[]> {
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith('.sql')).toSorted();
  return Promise.all(
    names.map(async (file) => {
      const text = await readFile(new URL(file, FOLDER), 'utf8');
      return { name: `functions/${file}`, text, hash: createHash('sha256').update(text).digest('hex') };
    }),
  );
}
