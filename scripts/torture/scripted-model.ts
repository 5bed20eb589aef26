/** A stand-in for Anthropic's Messages API that answers as the script in the run's first message says. */
import type { ServerResponse } from 'node:http';
import { breakOff, pause, startLocalServer, type LocalServer } from './local-server.ts';
import { answerOf, type PlannedStep, type Script } from './plan.ts';

interface ModelRequest {
  model: string;
  messages: { role: string; content: string | { type: string; text?: string }[] }[];
}

/** The same request gets the same answer, tool-use ids included; only a first answer may break off. */
export function startScriptedModel(): Promise<LocalServer> {
  const brokenOff = new Set<string>();
  return startLocalServer(async ({ body, response, watch }) => {
    const { model, messages } = body as ModelRequest;
    const script = readScript(messages);
    const place = messages.filter(({ role }) => role === 'assistant').length;
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
    const blocks = step ? callsOf(step, name) : [textBlock(answerOf(script.label))];
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
}

function readScript(messages: ModelRequest['messages']): Script {
  const content = messages[0]?.content ?? '';
  const text = typeof content === 'string' ? content : content.find(({ type }) => type === 'text')?.text;
  return JSON.parse(text ?? '') as Script;
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
