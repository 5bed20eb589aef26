/**
 * Whether the program got arguments that it does not take; then it has said so and must not work. `--help` exits
 * normally; anything else sets exit code 2, as on the command line.
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
