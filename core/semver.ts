/** Parses `major.minor.patch` into numbers. */
function parts(version: string): number[] {
  return version.split('.').map(Number);
}

/** Below 0 if `a` comes before `b`, above 0 if it comes after. Plain `major.minor.patch` only. */
export function compareVersions(a: string, b: string): number {
  const right = parts(b);
  const difference = parts(a).map((part, index) => part - (right[index] ?? 0));
  return difference.find((part) => part !== 0) ?? 0;
}

/** The next minor version: the default for a change. */
export function nextMinor(version: string): string {
  const [major = 0, minor = 0] = parts(version);
  return `${major}.${minor + 1}.0`;
}
