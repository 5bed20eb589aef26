/** Calls that their client has cancelled: any process may be told of it, and whoever waits in another one learns it. */
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

/** Remembers that the client has cancelled the call itself, and not what it waits for. */
export async function markCancelled(request: McpRequest, id: string | number): Promise<void> {
  const mark = { ...cancelOf(request, id), body: null };
  if (mark.key === undefined) return;
  await idempotently(request.context, mark, async () => ({ status: 202, body: true }));
}

/** Has whoever waits for the call look whether it was cancelled. */
export function tellCancelledCall(request: McpRequest, id: string | number): void {
  const { key } = cancelOf(request, id);
  if (key !== undefined) request.context.bus.publish({ subject: key, kind: 'abort', reason: 'cancel' });
}

/**
 * Waits as `wait` does until the client cancels the call, which then ends without an answer, as the specification asks. Other
 * messages of a batch are answered on the same stream: there it is answered as things stand.
 */
export async function unlessCancelled<T>(
  call: Omit<McpCall, 'onProgress'>,
  wait: (gone: AbortSignal) => Promise<T>,
): Promise<T> {
  const { key } = cancelOf(call, call.id);
  if (key === undefined) return wait(call.gone);
  const cancelled = new AbortController();
  const unsubscribe = call.context.bus.subscribe(key, () => cancelled.abort());
  const gone = linkSignals(call.gone, cancelled.signal);
  try {
    // It may have come before anybody listened.
    if (await isCancelled(call)) cancelled.abort();
    const result = await wait(gone.signal);
    if (call.isAlone && (await isCancelled(call))) await call.hangUp();
    return result;
  } finally {
    gone.release();
    unsubscribe();
  }
}

async function isCancelled(call: Omit<McpCall, 'onProgress'>): Promise<boolean> {
  return (await findAnswer(call.context, cancelOf(call, call.id))) !== undefined;
}

function cancelOf(request: McpRequest, id: string | number): CallRef {
  return { ...startOf(request, id), route: 'MCP notifications/cancelled' };
}
