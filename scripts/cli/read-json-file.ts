import { readFile } from 'node:fs/promises';
import { messageOf } from '../../core/errors.ts';
import { CommandError, EXIT } from './errors.ts';

/** Reads a JSON file named on the command line. */
export async function readJsonFile(path: string): Promise<unknown> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new CommandError(EXIT.usage, `${path} cannot be read: ${messageOf(error)}`, error);
  });
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new CommandError(EXIT.usage, `${path} is not JSON: ${messageOf(error)}`, error);
  }
}
