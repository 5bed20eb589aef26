/** The oldest Node that will do, as `engines` in package.json says. */
const OLDEST = [20, 20] as const;

/**
 * Ends the process with one line where Node is older. An entry file calls it before it imports anything large: what
 * older ones do not have is missing while modules are linked, before any of them runs.
 */
export function requireNode(): void {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return;
  process.stderr.write(`Drover needs Node ${OLDEST.join('.')} or later; this is ${process.versions.node}.\n`);
  process.exit(1);
}
