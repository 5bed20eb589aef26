/** A model that does what the user's message says, so that any number of runs can be scripted at once. */
import type { FakeServer } from './fake-http.ts';
import { startFakeAnthropic, type AnthropicReply, type AnthropicRequest } from './fake-anthropic.ts';

interface Asked {
  /** The user's message, and which of its steps it was. */
  message: string;
  step: number;
  /** The API key, which is the name of the process that asked. */
  by: string;
  /** When it came, in ms since the epoch. */
  at: number;
  /** Tool results in the request, as the model reads them. */
  results: string[];
  messages: AnthropicRequest['messages'];
  system: string;
}

export interface ScriptedModel {
  url: string;
  /** The requests whose message holds `text`. */
  asked: (text: string) => Asked[];
  /** Lets the answers go on that are held under this name. */
  release: (name: string) => void;
  close: () => Promise<void>;
}

/**
 * A message holds steps, separated by ` | `; each answers one request of its turn:
 * - `say TEXT`
 * - `call TOOL {json} & TOOL {json}`
 * - `think TEXT; STEP`: thinks before the step
 * - `wait MS STEP`: begins its answer after a while
 * - `hang STEP`: the first answer never ends, any later one is the step
 * - `break STEP`: the first answer ends with an error, any later one is the step
 * - `held NAME STEP`: begins its answer once `release(NAME)` was called
 * - `throttle SECONDS STEP`: the first answer is 429 with that `retry-after`, any later one is the step
 * After the last step it says `done: ` and the results of all calls of the turn.
 */
export async function startScriptedModel(): Promise<ScriptedModel> {
  const asked: Asked[] = [];
  const gates = new Map<string, { opened: Promise<void>; open: () => void }>();
  const gateOf = (name: string) => {
    let open = () => undefined as void;
    const opened = new Promise<void>((resolve) => (open = resolve));
    const gate = gates.get(name) ?? { opened, open };
    gates.set(name, gate);
    return gate;
  };
  const server: FakeServer = await startFakeAnthropic(async (request, n) => {
    const key = server.requests[n]?.headers.authorization?.replace('Bearer ', '') ?? '';
    const about = readRequest(request, key);
    const before = asked.filter(({ message, step }) => message === about.message && step === about.step).length;
    asked.push(about);
    const steps = about.message.split(' | ');
    const step = steps[about.step] ?? `say done: ${about.results.join(', ')}`;
    const [, held, then = ''] = /^held (\S+) (.*)$/s.exec(step) ?? [];
    if (held !== undefined) await gateOf(held).opened;
    return replyTo(held === undefined ? step : then, before);
  });
  return {
    url: server.url,
    asked: (text) => asked.filter(({ message }) => message.includes(text)),
    release: (name) => gateOf(name).open(),
    close: server.close,
  };
}

function replyTo(step: string, before: number): AnthropicReply {
  const [, ms, later] = /^wait (\d+) (.*)$/s.exec(step) ?? [];
  if (later !== undefined) return { ...replyTo(later, before), delayMs: Number(ms) };
  const [, thinking, after] = /^think ([^;]*); (.*)$/s.exec(step) ?? [];
  if (after !== undefined) {
    const reply = replyTo(after, before);
    const signature = Buffer.from(`signed: ${thinking}`).toString('base64');
    return { ...reply, content: [{ type: 'thinking', thinking, signature }, ...(reply.content ?? [])] };
  }
  const hung = /^hang (.*)$/s.exec(step)?.[1];
  if (hung !== undefined) return { ...replyTo(hung, before), ...(before === 0 && { hang: true }) };
  const broken = /^break (.*)$/s.exec(step)?.[1];
  const error = { type: 'api_error', midStream: true };
  if (broken !== undefined) return { ...replyTo(broken, before), ...(before === 0 && { error }) };
  const [, seconds, then] = /^throttle (\d+) (.*)$/s.exec(step) ?? [];
  if (then !== undefined) {
    const throttled = { status: 429, type: 'rate_limit_error', retryAfter: Number(seconds) };
    return before === 0 ? { error: throttled } : replyTo(then, before);
  }
  const calls = /^call (.*)$/s.exec(step)?.[1];
  if (calls === undefined) return { content: [{ type: 'text', text: step.replace(/^say /, '') }] };
  const wishes = calls.split(' & ').map((call) => {
    const [, name, json] = /^(\S+) ?(.*)$/s.exec(call) ?? [];
    return { name, json: json || '{}' };
  });
  // One call goes out as it is written: it may be nested too deeply to be parsed and written anew.
  const [only] = wishes.length === 1 ? wishes : [];
  const content = wishes.map(({ name, json }) => ({
    type: 'tool_use',
    id: `toolu_${Math.random().toString(36).slice(2)}`,
    name,
    input: only ? {} : (JSON.parse(json) as unknown),
  }));
  return { content, ...(only && { rawInput: only.json }) };
}

function readRequest({ messages, system }: AnthropicRequest, by: string): Asked {
  const start = messages.findLastIndex((message) => message.role === 'user' && textOf(message.content) !== undefined);
  const turn = messages.slice(start + 1);
  return {
    message: textOf(messages[start]?.content ?? '') ?? '',
    step: turn.filter((message) => message.role === 'assistant').length,
    by,
    at: Date.now(),
    results: turn.flatMap((message) => (message.role === 'user' ? resultsOf(message.content) : [])),
    messages,
    system: system === undefined ? '' : (textOf(system as Content) ?? ''),
  };
}

type Content = AnthropicRequest['messages'][number]['content'];

function textOf(content: Content): string | undefined {
  if (typeof content === 'string') return content;
  const block = content.find(({ type }) => type === 'text');
  return block && String(block['text']);
}

function resultsOf(content: Content): string[] {
  if (typeof content === 'string') return [];
  return content.flatMap((block) => {
    if (block.type !== 'tool_result') return [];
    const inner = block['content'];
    return [typeof inner === 'string' ? inner : ((inner as { text?: string }[])[0]?.text ?? '')];
  });
}
