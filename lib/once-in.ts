/** For lines of the log that would come again and again: true at the first time, and again after `everyMs`. */
export function onceIn(everyMs: number): () => boolean {
  let toldAtMs = Number.NEGATIVE_INFINITY;
  return () => {
    const nowMs = performance.now();
    if (nowMs - toldAtMs < everyMs) return false;
    toldAtMs = nowMs;
    return true;
  };
}
