/**
 * Calls that the client cancels before they are answered: any process may receive the cancellation, and the one that
 * waits learns of it.
 */
import { digestOf } from '../../core/ids.ts';
import { linkSignals } from '../../lib/link-signals.ts';
import { findAnswer, idempotently, type IdempotentRequest } from '../../modules/tenants/idempotency.ts';
import type { McpCall, McpRequest } from './tool-kind.ts';

type CallRef = Omit<IdempotentRequest, 'body'>;

/** The idempotency of a call: a repeated request finds the run it started; another one under the same id is refused. */
export function startOf({ caller, session }: McpRequest, id: string | number): CallRef {
  const key = session === undefined ? undefined : digestOf([caller.workspaceId, session, id]);
  const reused = `Another call of this session has the id ${JSON.stringify(id)}: each call needs an id of its own.`;
  return { tenantId: caller.tenantId, route: 'MCP tools/call', key, reused };
}

/** How a call ended for its client. */
type CallEnd = 'answered' | 'cancelled';

/** Ends the call, not what it waits for; returns how. Only the first end counts, in whichever process. */
export async function endCall(request: McpRequest, id: string | number, end: CallEnd): Promise<CallEnd> {
  const call = { ...endOf(request, id), body: null };
  if (call.key === undefined) return end;
  return (await idempotently(request.context, call, async () => ({ status: 202, body: end }))).body;
}

/** Makes the process that waits for the call check whether it was cancelled. */
export function tellCancelledCall(request: McpRequest, id: string | number): void {
  const { key } = endOf(request, id);
  if (key !== undefined) request.context.bus.publish({ subject: key, kind: 'abort', reason: 'cancel' });
}

/**
 * Waits until the client cancels the call, which then ends without an answer, as the specification asks. In a batch,
 * whose answers share a stream, it is answered with the state at that time. Calls `undo` first if the call was
 * cancelled before this began.
 */
export async function unlessCancelled<T>(
  call: Omit<McpCall, 'onProgress'>,
  wait: (gone: AbortSignal) => Promise<T>,
  undo?: () => Promise<unknown>,
): Promise<T> {
  const { key } = endOf(call, call.id);
  if (key === undefined) return wait(call.gone);
  const cancelled = new AbortController();
  const unsubscribe = call.context.bus.subscribe(key, () => cancelled.abort());
  const gone = linkSignals(call.gone, cancelled.signal);
  try {
    if ((await findAnswer(call.context, endOf(call, call.id))) === ('cancelled' satisfies CallEnd)) {
      cancelled.abort();
      await undo?.();
    }
    return await wait(gone.signal);
  } finally {
    gone.release();
    unsubscribe();
    await answerOrHangUp(call);
  }
}

/** A client that has left gets no answer, and may repeat the call. */
async function answerOrHangUp(call: Omit<McpCall, 'onProgress'>): Promise<void> {
  if (call.gone.aborted) return;
  const end = await endCall(call, call.id, 'answered');
  if (end === 'cancelled' && call.isAlone) await call.hangUp();
}

function endOf(request: McpRequest, id: string | number): CallRef {
  return { ...startOf(request, id), route: 'MCP notifications/cancelled' };
}
