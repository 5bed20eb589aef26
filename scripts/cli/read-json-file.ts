import { readFile } from 'node:fs/promises';
import { messageOf } from '../../core/errors.ts';
import { findRounded } from '../../lib/json-integers.ts';
import { CommandError, EXIT } from './errors.ts';

/** Reads a JSON file named on the command line, in which no number would be rounded. */
export async function readJsonFile(path: string): Promise<unknown> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new CommandError(EXIT.usage, `${path} cannot be read: ${messageOf(error)}`, { cause: error });
  });
  const value = parse(text, path);
  // The service refuses these, but would be sent what JSON.parse has made of them.
  for (const keys of findRounded(text)) {
    const where = keys.length === 0 ? 'It' : keys.join('.');
    throw new CommandError(EXIT.usage, `${path}: ${where} is a number that would be changed: write it as a text.`);
  }
  return value;
}

function parse(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CommandError(EXIT.usage, `${path} is not JSON: ${messageOf(error)}`, { cause: error });
  }
}
