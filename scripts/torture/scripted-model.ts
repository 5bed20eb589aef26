/** A stand-in for Anthropic's Messages API that follows the script in a run's message. */
import type { ServerResponse } from 'node:http';
import { breakOff, pause, startLocalServer, type LocalServer } from './local-server.ts';
import { submitted } from './memory.ts';
import { answerOf, type PlannedStep, type Script } from './plan.ts';

interface ModelRequest {
  model: string;
  tools?: { name: string }[];
  messages: { role: string; content: string | { type: string; text?: string }[] }[];
}

export interface ScriptedModel extends LocalServer {
  /** Answers every request with this status for `forMs`. */
  stop: (status: number, forMs: number) => void;
}

/** Equal requests get equal answers, tool-use ids included; only a first answer may break off. */
export async function startScriptedModel(): Promise<ScriptedModel> {
  const brokenOff = new Set<string>();
  let outage = { status: 0, endsAtMs: 0 };
  const server = await startLocalServer(async ({ body, response, watch }) => {
    if (performance.now() < outage.endsAtMs) {
      response.writeHead(outage.status, { 'content-type': 'application/json' }).end(OUTAGE);
      return;
    }
    const { model, messages, tools } = body as ModelRequest;
    const own = OWN[tools?.[0]?.name ?? ''];
    if (own) {
      if (!(await pause(response, own.thinkMs ?? 0))) return;
      sendOwn(response, model, { name: own.name, input: own.inputOf(JSON.stringify(messages)) });
      return;
    }
    const { script, place, before } = readScripts(messages);
    const step = script.steps[place];
    watch(script.label);
    if (!(await pause(response, step?.thinkMs ?? 0))) return;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    send(response, { type: 'message_start', message: messageOf(model) });
    const name = `${script.label}-${place}`;
    if (step?.breaks && !brokenOff.has(name)) {
      brokenOff.add(name);
      breakOff(response);
      return;
    }
    const blocks = step ? callsOf(step, name) : [textBlock(answerOf(script.label, before))];
    blocks.forEach(({ start, delta }, index) => {
      send(response, { type: 'content_block_start', index, content_block: start });
      send(response, { type: 'content_block_delta', index, delta });
      send(response, { type: 'content_block_stop', index });
    });
    const stop_reason = step ? 'tool_use' : 'end_turn';
    send(response, { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 5 } });
    send(response, { type: 'message_stop' });
    response.end();
  });
  return {
    ...server,
    stop(status, forMs) {
      outage = { status, endsAtMs: Math.max(outage.endsAtMs, performance.now() + forMs) };
    },
  };
}

const OUTAGE = JSON.stringify({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } });

/** Answers to Drover's own requests, which no script has. */
const OWN: Record<string, { name: string; inputOf: (material: string) => object; thinkMs?: number } | undefined> = {
  submit_title: { name: 'submit_title', inputOf: () => ({ title: 'A run of the torture' }) },
  submit_synthesis: { name: 'submit_synthesis', inputOf: () => ({ result: 'All of it.' }) },
  submit_memories: { name: 'submit_memories', inputOf: submitted, thinkMs: 300 },
};

function sendOwn(response: ServerResponse, model: string, { name, input }: { name: string; input: object }): void {
  const use = { type: 'tool_use', id: `toolu_${name}`, name, input };
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ ...messageOf(model), content: [use], stop_reason: 'tool_use' }));
}

/** The script in the last user message, the number of answers so far, and the labels of earlier scripts. */
function readScripts(messages: ModelRequest['messages']): { script: Script; place: number; before: string[] } {
  const scripts = messages.flatMap((message, index) => {
    return message.role === 'user'
      ? textsOf(message.content)
          .flatMap(parseScript)
          .map((script) => ({ index, script }))
      : [];
  });
  const last = scripts.at(-1);
  if (!last) throw new Error('a request without a script');
  const answers = messages.slice(last.index).filter(({ role }) => role === 'assistant');
  return { script: last.script, place: answers.length, before: scripts.slice(0, -1).map(({ script }) => script.label) };
}

function textsOf(content: ModelRequest['messages'][number]['content']): string[] {
  return typeof content === 'string'
    ? [content]
    : content.flatMap(({ type, text }) => (type === 'text' ? (text ?? []) : []));
}

/** Skips Drover's own remarks, which are no scripts; below a subtask's script are results of other subtasks. */
function parseScript(text: string): Script[] {
  const [first = ''] = text.split('\n', 1);
  return first.startsWith('{') ? [JSON.parse(first) as Script] : [];
}

function callsOf(step: PlannedStep, name: string) {
  return step.calls.map(({ tool, input }, place) => ({
    start: { type: 'tool_use', id: `toolu_${name}-${place}`, name: tool, input: {} },
    delta: { type: 'input_json_delta', partial_json: JSON.stringify(input) },
  }));
}

function textBlock(text: string) {
  return { start: { type: 'text', text: '' }, delta: { type: 'text_delta', text } };
}

function messageOf(model: string): Record<string, unknown> {
  const usage = { input_tokens: 10, output_tokens: 1 };
  return { id: 'msg', type: 'message', role: 'assistant', model, content: [], stop_reason: null, usage };
}

function send(response: ServerResponse, data: { type: string } & Record<string, unknown>): void {
  response.write(`event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`);
}
