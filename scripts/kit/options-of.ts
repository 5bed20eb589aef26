/** The options of a program on the command line. */
import { parseArgs, type ParseArgsConfig } from 'node:util';
import { messageOf } from '../../core/errors.ts';

type Options = NonNullable<ParseArgsConfig['options']>;

/** Reads them. A wrong one ends the process with 2 and a line that begins with the program's name. */
export function optionsOf<const O extends Options>(
  program: string,
  options: O,
): ReturnType<typeof parseArgs<{ options: O }>>['values'] {
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    process.stderr.write(`${program}: ${messageOf(error)}\n`);
    return process.exit(2);
  }
}
