import type { UserBlock } from '../../core/content.ts';
import type { ArgumentsPiece, ModelDelta, ModelRequest, ModelResponse, StreamModel } from '../../core/model.ts';

/** A request with sensible parts where a test does not care. */
export function modelRequest(parts: Partial<ModelRequest> = {}): ModelRequest {
  return {
    model: 'claude-sonnet-5',
    system: 'You help.',
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }],
    tools: [],
    toolChoice: 'auto',
    maxTokens: 500,
    examples: [],
    ...parts,
  };
}

export function userText(text: string): { role: 'user'; content: UserBlock[] } {
  return { role: 'user', content: [{ type: 'text', text }] };
}

/** One call, with the pieces that came while it ran. */
export async function ask(
  stream: StreamModel,
  request: ModelRequest,
  signal: AbortSignal = new AbortController().signal,
): Promise<{ response: ModelResponse; deltas: ModelDelta[]; written: ArgumentsPiece[] }> {
  const deltas: ModelDelta[] = [];
  const written: ArgumentsPiece[] = [];
  const response = await stream(request, {
    signal,
    onDelta: (delta) => {
      if (delta.type === 'arguments') written.push(delta);
      else deltas.push(delta);
    },
  });
  return { response, deltas, written };
}

export const WEATHER = {
  name: 'weather',
  description: 'The weather in a city.',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};
