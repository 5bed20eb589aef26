/** Huge outputs: cut for the model, but stored whole. */
import type { RetryingClient } from './client.ts';
import type { StartedRun } from './drive.ts';
import type { Delivery } from './effect-server.ts';
import type { ExaminedRun } from './examine-run.ts';

interface ExaminedOutputs {
  /** Huge outputs that were stored. */
  huge: number;
  cutShort: string[];
}

/** Reads the whole output of each successful call with megabytes of output. */
export async function examineOutputs(
  client: RetryingClient,
  examined: ReadonlyMap<StartedRun, ExaminedRun>,
  deliveries: readonly Delivery[],
): Promise<ExaminedOutputs> {
  const intents = new Map(deliveries.map(({ call, intent }) => [call, intent]));
  const found: ExaminedOutputs = { huge: 0, cutShort: [] };
  for (const [{ plan }, { log }] of examined) {
    const sizes = new Map(plan.steps.flatMap(({ calls }) => calls.map(({ input }) => sizeOf(input))));
    for (const event of log) {
      if (event.type !== 'tool.succeeded') continue;
      const id = event.payload.tool_call_id;
      const bytes = sizes.get(intents.get(id));
      if (bytes === undefined) continue;
      const { output } = await client.get<{ output: { more?: string } }>(`/v1/tool-calls/${id}/output`);
      const kept = output.more?.length ?? 0;
      if (kept === bytes) found.huge++;
      else found.cutShort.push(`${plan.label}: of the ${bytes} bytes of call ${id} there are ${kept}`);
    }
  }
  return found;
}

function sizeOf(
  input: StartedRun['plan']['steps'][number]['calls'][number]['input'],
): [intent: string | undefined, bytes: number | undefined] {
  return 'intent' in input ? [input.intent, input.bytes] : [undefined, undefined];
}
