/** Calls that their client cancels before they are answered: any process may be told of it, and whoever waits in another one learns it. */
import { digestOf } from '../../core/ids.ts';
import { linkSignals } from '../../lib/link-signals.ts';
import { findAnswer, idempotently, type IdempotentRequest } from '../../modules/tenants/idempotency.ts';
import type { McpCall, McpRequest } from './tool-kind.ts';

type CallRef = Omit<IdempotentRequest, 'body'>;

/** A request that is sent again finds the run that it has started; another one under the same id is refused. */
export function startOf({ caller, session }: McpRequest, id: string | number): CallRef {
  const key = session === undefined ? undefined : digestOf([caller.workspaceId, session, id]);
  const reused = `Another call of this session has the id ${JSON.stringify(id)}: each call needs an id of its own.`;
  return { tenantId: caller.tenantId, route: 'MCP tools/call', key, reused };
}

/** How a call has ended for its client. */
type CallEnd = 'answered' | 'cancelled';

/** Ends a call, whose first end is its only one, in whatever process; answers which that is. It ends the call itself, and not what it waits for. */
export async function endCall(request: McpRequest, id: string | number, end: CallEnd): Promise<CallEnd> {
  const call = { ...endOf(request, id), body: null };
  if (call.key === undefined) return end;
  return (await idempotently(request.context, call, async () => ({ status: 202, body: end }))).body;
}

/** Has whoever waits for the call look whether it was cancelled. */
export function tellCancelledCall(request: McpRequest, id: string | number): void {
  const { key } = endOf(request, id);
  if (key !== undefined) request.context.bus.publish({ subject: key, kind: 'abort', reason: 'cancel' });
}

/**
 * Waits as `wait` does until the client cancels the call, which then ends without an answer, as the specification asks. Other
 * messages of a batch are answered on the same stream: there it is answered as things stand. `undo` is called first where it was
 * cancelled before anybody waited.
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

/** Whoever has left is not answered, and may send the call again. */
async function answerOrHangUp(call: Omit<McpCall, 'onProgress'>): Promise<void> {
  if (call.gone.aborted) return;
  const end = await endCall(call, call.id, 'answered');
  if (end === 'cancelled' && call.isAlone) await call.hangUp();
}

function endOf(request: McpRequest, id: string | number): CallRef {
  return { ...startOf(request, id), route: 'MCP notifications/cancelled' };
}
