/** What tests do with runs over HTTP, and what must hold of every run. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import type { Installation } from './installation.ts';

export interface SseMessage {
  id: number | undefined;
  event: string;
  data: Record<string, unknown>;
}

export interface LogEvent {
  seq: number;
  type: string;
  turn_id: string | null;
  step: number | null;
  payload: Record<string, unknown>;
}

/** Registers an agent with the tools of the world: `lookup` reads, `record` is idempotent, `charge` says nothing of itself. */
export async function createAgent(
  { call, world }: Pick<Installation, 'call' | 'world'>,
  fields: Record<string, unknown> = {},
): Promise<string> {
  const suffix = Math.random().toString(36).slice(2, 8);
  const names = new Map<string, string>();
  for (const [name, about] of Object.entries({
    lookup: { risk_level: 'READ_ONLY' },
    record: { annotations: { idempotentHint: true } },
    charge: {},
  })) {
    const tool = await call('POST', '/v1/tools', {
      body: {
        name: `${name}_${suffix}`,
        description: `Does ${name}.`,
        transport: { type: 'http', endpoint: `${world.url}/${name}` },
        execution: { retry_config: { max_retries: 2, backoff_ms: 100 } },
        ...about,
      },
    });
    assert.equal(tool.status, 201, tool.text);
    names.set(name, tool.json.id);
  }
  const agent = await call('POST', '/v1/agents', {
    body: { name: `agent ${suffix}`, tools: ['calculator', ...names.values()], ...fields },
  });
  assert.equal(agent.status, 201, agent.text);
  suffixes.set(agent.json.id, suffix);
  return agent.json.id;
}

const suffixes = new Map<string, string>();

/** The name under which an agent has one of the world's tools. */
export function toolOf(agent: string, name: 'lookup' | 'record' | 'charge'): string {
  return `${name}_${suffixes.get(agent)}`;
}

/** Starts a run with a message; answers its id. */
export async function startRun(
  { call }: Pick<Installation, 'call'>,
  agent: string,
  message: string,
): Promise<{ run: string; turn: string; thread: string }> {
  const answer = await call('POST', `/v1/agents/${agent}/runs`, { body: { input: { message } } });
  assert.equal(answer.status, 202, answer.text);
  return { run: answer.json.run_id, turn: answer.json.turn_id, thread: answer.json.thread_id };
}

const TERMINAL = ['completed', 'failed', 'cancelled'];

/** The run, once it is in one of these states. */
export async function untilRun(
  { call }: Pick<Installation, 'call'>,
  run: string,
  { states = TERMINAL, timeoutMs = 60_000 }: { states?: string[]; timeoutMs?: number } = {},
): Promise<{ status: string; output?: { message: string } } & Record<string, unknown>> {
  const endsAt = Date.now() + timeoutMs;
  for (;;) {
    const answer = await call('GET', `/v1/runs/${run}`);
    assert.equal(answer.status, 200, answer.text);
    if (states.includes(answer.json.status)) return answer.json;
    if (Date.now() > endsAt) {
      const log = await readLog({ call }, run);
      const tail = log.slice(-5).map(({ seq, type }) => `${seq} ${type}`);
      throw new Error(`after ${timeoutMs} ms run ${run} is ${answer.json.status}: ${tail.join(', ')}`);
    }
    await pause(40);
  }
}

/** The whole log of a run, page by page. */
export async function readLog({ call }: Pick<Installation, 'call'>, run: string): Promise<LogEvent[]> {
  const events: LogEvent[] = [];
  let cursor = '';
  do {
    const page = await call('GET', `/v1/runs/${run}/events?limit=200${cursor}`);
    assert.equal(page.status, 200, page.text);
    events.push(...page.json.events);
    cursor = page.json.next_cursor === undefined ? '' : `&cursor=${page.json.next_cursor}`;
  } while (cursor !== '');
  return events;
}

/** What holds of every finished run: a log without gaps that tells the same story as the run, its turns and its calls. */
export async function assertSound(installation: Installation, run: string, status = 'completed'): Promise<LogEvent[]> {
  const { row, log } = await readBoth(installation, run);
  assert.equal(row.status, status, JSON.stringify(row.error));
  assert.deepEqual(
    log.map(({ seq }) => seq),
    log.map((_, index) => index + 1),
  );
  assert.equal(row.last_seq, log.length);
  const ends = log.filter(({ type }) => ['run.completed', 'run.failed', 'run.cancelled'].includes(type));
  assert.deepEqual(
    ends.map(({ type }) => type),
    [`run.${status}`],
  );
  const statuses = log.filter(({ type }) => type === 'run.status_changed').map(({ payload }) => payload);
  statuses.forEach(({ from }, index) => assert.equal(from, statuses[index - 1]?.['to'] ?? 'created'));
  assert.equal(statuses.at(-1)?.['to'], status);
  const steps = log.filter(({ type }) => type === 'model.responded').map(({ step }) => step);
  assert.deepEqual(
    steps,
    steps.map((_, index) => index + 1),
  );
  assertCallsSettled(log);
  return log;
}

/** The run and its log of one moment: what a model had said by then may still come after a cancel. */
async function readBoth(installation: Pick<Installation, 'call'>, run: string) {
  for (;;) {
    const row = (await installation.call('GET', `/v1/runs/${run}`)).json;
    const log = await readLog(installation, run);
    const now = (await installation.call('GET', `/v1/runs/${run}`)).json;
    if (now.last_seq === row.last_seq) return { row, log };
  }
}

/** Every call that was asked for has one outcome. */
function assertCallsSettled(log: readonly LogEvent[]): void {
  const ids = (types: string[]) =>
    log.filter(({ type }) => types.includes(type)).map(({ payload }) => String(payload['tool_call_id']));
  const settled = ids(['tool.succeeded', 'tool.failed', 'tool.denied', 'tool.unknown']);
  assert.deepEqual(settled.toSorted(), ids(['tool.requested']).toSorted());
}

/** Follows a stream; ends with it, or after `take` durable events. */
export async function* follow(
  { url, key }: Pick<Installation, 'url' | 'key'>,
  path: string,
  options: {
    body?: unknown;
    lastEventId?: number | undefined;
    signal?: AbortSignal;
    headers?: Record<string, string>;
  } = {},
): AsyncGenerator<SseMessage> {
  const response = await fetch(`${url()}${path}`, {
    ...(options.body !== undefined && { method: 'POST', body: JSON.stringify(options.body) }),
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      ...(options.lastEventId !== undefined && { 'last-event-id': String(options.lastEventId) }),
      ...options.headers,
    },
    signal: options.signal ?? null,
  });
  if (response.status === 204) return;
  assert.equal(response.status, 200, response.status === 200 ? '' : await response.text());
  assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/);
  let text = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    const parts = text.split('\n\n');
    text = parts.pop() ?? '';
    for (const part of parts) if (!part.startsWith(':')) yield parseEvent(part);
  }
  assert.equal(text, '', 'the stream ended within an event');
}

function parseEvent(part: string): SseMessage {
  const fields = Object.fromEntries(
    part.split('\n').map((line) => [line.split(': ', 1)[0], line.replace(/^\w+: /, '')]),
  );
  const id = fields['id'] === undefined ? undefined : Number(fields['id']);
  return { id, event: fields['event'] ?? '', data: JSON.parse(fields['data'] ?? '{}') as Record<string, unknown> };
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** Those with an id: what the log holds. */
export const durable = (events: readonly SseMessage[]) => events.filter(({ id }) => id !== undefined);
