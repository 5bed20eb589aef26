/** The outside world: HTTP tools whose effects are counted, and which misbehave as planned. */
import { breakOff, pause, startLocalServer, type LocalServer } from './local-server.ts';
import type { HttpTool, ToolInput } from './plan.ts';

export interface Delivery {
  tool: HttpTool;
  intent: string;
  key: string;
  call: string;
  atMs: number;
  /** `refused` had no effect; `repeated` had none either, as an idempotent tool knew its key. */
  outcome: 'effect' | 'refused' | 'repeated' | 'read';
}

export interface EffectServer extends LocalServer {
  deliveries: Delivery[];
}

/** Effects happen when a request arrives, long before its answer: a client that hangs up cannot undo them. */
export async function startEffectServer(): Promise<EffectServer> {
  const deliveries: Delivery[] = [];
  const keys = new Set<string>();
  const seen = new Set<string>();
  const server = await startLocalServer(async ({ headers, body, response, watch }) => {
    const input = body as ToolInput & { tool: HttpTool };
    const tool = String(headers['x-torture-tool']) as HttpTool;
    const key = String(headers['idempotency-key']);
    const isFirst = !seen.has(input.intent);
    seen.add(input.intent);
    const refused = input.fault === 'refuse' && isFirst;
    const outcome = refused ? 'refused' : outcomeOf(tool, keys.has(key));
    if (!refused) keys.add(key);
    const call = String(headers['x-drover-tool-call-id']);
    deliveries.push({ tool, intent: input.intent, key, call, atMs: Date.now(), outcome });
    if (refused) {
      response.writeHead(503, { 'retry-after': '0' }).end();
      return;
    }
    watch(labelOf(input.intent));
    if (!(await pause(response, input.ms))) return;
    if (input.fault === 'break' && isFirst) {
      breakOff(response);
      return;
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    const more = input.bytes === undefined ? {} : { more: 'x'.repeat(input.bytes) };
    response.end(JSON.stringify({ done: input.intent, ...more }));
  });
  return { ...server, deliveries };
}

/** The run of an intent: `run-12-3-1` belongs to `run-12`. */
function labelOf(intent: string): string {
  return intent.split('-').slice(0, 2).join('-');
}

function outcomeOf(tool: HttpTool, isKnownKey: boolean): Delivery['outcome'] {
  if (tool === 'lookup') return 'read';
  return tool.startsWith('record') && isKnownKey ? 'repeated' : 'effect';
}
