/** Shows a running run from its stream. */
import type { ApiClient } from './api-client.ts';
import type { Screen } from './screen.ts';

export interface Followed {
  /** The end of the turn; undefined if the stream broke before. */
  end: { status: string; message: string; error: string | undefined } | undefined;
  /** The id to resume the stream after. */
  lastEventId: string | undefined;
  /** Tools that have answered. */
  answered: string[];
}

interface Data {
  step?: number;
  content?: string;
  done?: boolean;
  tool?: string;
  input?: unknown;
  output?: unknown;
  is_error?: boolean;
  status?: string;
  error?: { message: string };
  waiting_for?: { error?: { message: string } } | null;
}

/** Follows a run to the end of its turn, or until the connection breaks; `lastEventId` then says where to resume. */
export async function followRun(
  { client, screen }: { client: ApiClient; screen: Screen },
  runId: string,
  options: { lastEventId?: string | undefined; signal: AbortSignal },
): Promise<Followed> {
  const followed: Followed = { end: undefined, lastEventId: options.lastEventId, answered: [] };
  const { lastEventId, signal } = options;
  try {
    for await (const message of client.follow(`/v1/runs/${runId}/stream`, { lastEventId, signal })) {
      const data = JSON.parse(message.data) as Data;
      if (message.event === 'done') followed.end = endOf(data);
      else await show({ client, screen }, { runId, event: message.event, data, id: message.lastEventId });
      if (message.event === 'tool_result' && data.tool !== undefined) followed.answered.push(data.tool);
      followed.lastEventId = message.lastEventId;
    }
  } catch (error) {
    // A dead server breaks the stream; after its restart, the caller resumes it.
    if (!isBroken(error)) throw error;
  }
  return followed;
}

interface Shown {
  runId: string;
  event: string;
  data: Data;
  id: string | undefined;
}

async function show({ client, screen }: { client: ApiClient; screen: Screen }, shown: Shown): Promise<void> {
  const { event, data } = shown;
  const step = data.step ?? 0;
  const { content = '', tool = '' } = data;
  if (event === 'tool_call') screen.toolCall({ tool, input: data.input });
  if (event === 'tool_result') {
    const isError = data.is_error === true;
    screen.toolResult({ tool, output: isError ? (data.error?.message ?? data.output) : data.output, isError });
  }
  // Drover retries for up to a day; the viewer should know why nothing happens.
  if (data.waiting_for?.error) screen.line('waits for', `the model's provider: ${data.waiting_for.error.message}`);
  if (event !== 'thought' && event !== 'message') return;
  if (data.done === false) screen.delta(step, content);
  else screen.text(step, { content, usage: await usageOf(client, shown) });
}

interface Responded {
  payload: { usage: Record<string, number>; cost_usd: string | null };
}

/** The text's id is the sequence number of the model's answer in the log, which has its tokens and cost. */
async function usageOf(client: ApiClient, { runId, id }: Shown): Promise<string> {
  const after = Number(id) - 1;
  const path = `/v1/runs/${runId}/events?types=model.responded&limit=1&after=${after}`;
  const { events } = await client.get<{ events: Responded[] }>(path);
  const payload = events[0]?.payload;
  if (!payload) return '';
  const { output = 0, input = 0, cache_read = 0, cache_write_5m = 0, cache_write_1h = 0 } = payload.usage;
  const cost = payload.cost_usd === null ? 'cost unknown' : `$${payload.cost_usd}`;
  return `(${input + cache_read + cache_write_5m + cache_write_1h} tokens in, ${output} out, ${cost})`;
}

function endOf(data: Data): Followed['end'] {
  const { message = '' } = (data.output ?? {}) as { message?: string };
  return { status: data.status ?? '', message, error: data.error?.message };
}

/** undici's errors: `terminated`, caused by the socket's error; `fetch failed` if nothing listens any more. */
function isBroken(error: unknown): boolean {
  return error instanceof TypeError && /terminated|fetch failed/.test(error.message);
}
