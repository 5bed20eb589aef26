/**
 * Lets an agent hand parts of its work to others; the call waits as a row meanwhile
 * (modules/workflows/advance-delegations.ts).
 */
import { LIMITS } from '../../core/limits.ts';
import { DELEGATE_TOOL } from '../../core/tool.ts';
import { WRITES, type Builtin } from './builtin-type.ts';

export const DELEGATE: Builtin = {
  name: DELEGATE_TOOL,
  display_name: 'Delegate',
  description:
    'Has another agent do a part of your work, and gives what it has come to. It sees nothing but the description and the context that you give: say in full what is to be done. Call it several times at once for parts that need nothing of each other. Hand on parts, not the whole that you were asked for.',
  input_schema: {
    type: 'object',
    properties: {
      description: { type: 'string', minLength: 1, maxLength: LIMITS.briefChars, description: 'What is to be done.' },
      agent: { type: 'string', minLength: 1, maxLength: 200, description: 'Who does it, by name or id.' },
      capability: {
        type: 'string',
        minLength: 1,
        maxLength: 200,
        description: 'In place of a name: what whoever does it has to be able to do.',
      },
      context: { description: 'What it needs to know, as text or JSON.' },
      max_cost_tokens: {
        type: 'integer',
        minimum: 1,
        maximum: LIMITS.taskTokens,
        description: 'Tokens that it may use.',
      },
    },
    required: ['description'],
    additionalProperties: false,
  },
  output_schema: {
    type: 'object',
    properties: {
      result: { type: 'string' },
      agent_id: { type: 'string' },
      run_id: { type: 'string', description: 'The run that did it.' },
      tokens_used: { type: 'integer' },
    },
    required: ['result', 'agent_id', 'run_id'],
  },
  ...WRITES,
};
