/** Holds the whole process up, as a pause of its machine does. */
export function busyFor(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}
