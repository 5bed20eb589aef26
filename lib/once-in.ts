/** For lines of a log that would come again and again: true at the first time for that log, and again after `everyMs`. */
export function onceIn(everyMs: number): (log: object) => boolean {
  const toldAtMs = new WeakMap<object, number>();
  return (log) => {
    const nowMs = performance.now();
    if (nowMs - (toldAtMs.get(log) ?? Number.NEGATIVE_INFINITY) < everyMs) return false;
    toldAtMs.set(log, nowMs);
    return true;
  };
}
