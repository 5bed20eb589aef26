/** The oldest supported Node, as `engines` in package.json says. */
const OLDEST = [20, 20] as const;

/**
 * Ends the process with one line if Node is too old. An entry file calls it before it imports anything large: a missing
 * feature of an older Node fails the linking of modules, before any of them runs.
 */
export function requireNode(): void {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return;
  process.stderr.write(`Drover needs Node ${OLDEST.join('.')} or later; this is ${process.versions.node}.\n`);
  process.exit(1);
}
