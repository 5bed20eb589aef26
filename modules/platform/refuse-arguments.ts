/**
 * Whether a program was given what it does not take, and has said so: it is not to do its work then. `--help` is answered,
 * anything else ends with exit code 2, as on the command line.
 */
export function refuseArguments(taken: readonly string[] = []): boolean {
  const given = process.argv.slice(2).filter((each) => !taken.includes(each));
  if (given.length === 0) return false;
  const takes = taken.length === 0 ? 'no arguments' : taken.join(' ');
  const text = `This program takes ${takes}; its settings are variables of the environment (docs/configuration.md).\n`;
  if (given.every((each) => each === '--help' || each === '-h')) {
    process.stdout.write(text);
  } else {
    process.stderr.write(text);
    process.exitCode = 2;
  }
  return true;
}
