import type { ToolOutcome } from '../../core/tool.ts';
import { READS, toolError, type Builtin } from './builtin-type.ts';

export const ASK_USER: Builtin = {
  name: 'ask_user',
  display_name: 'Ask the user',
  description:
    'Asks the user a question and waits for the answer. Use it when something is missing that only the user can tell, not for what another tool can find out.',
  input_schema: {
    type: 'object',
    properties: { question: { type: 'string', minLength: 1, maxLength: 5000 } },
    required: ['question'],
    additionalProperties: false,
  },
  output_schema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
  ...READS,
};

/** Called only outside a run, where there is no user; within one, a signal of type `user` answers. */
export async function askNobody(): Promise<ToolOutcome> {
  return toolError('no-user', 'There is nobody to ask outside a run.');
}
