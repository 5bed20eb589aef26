import type { Bus } from '../../bus/bus.ts';
import type { ToolProgress } from '../../core/tool.ts';

const PAUSE_MS = 100;
const MAX_MESSAGE_CHARS = 500;

/** Publishes a call's progress, at most ten times a second. A hint: it is not stored. */
export function reportProgress(
  bus: Bus,
  call: { subject: string; turnId: string; callId: string; tool: string },
): (progress: ToolProgress) => void {
  let lastMs = Number.NEGATIVE_INFINITY;
  return ({ progress, total, message }) => {
    const nowMs = performance.now();
    if (nowMs - lastMs < PAUSE_MS) return;
    lastMs = nowMs;
    bus.publish({ kind: 'progress', ...call, progress, total, message: message?.slice(0, MAX_MESSAGE_CHARS) });
  };
}
