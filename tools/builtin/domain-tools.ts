/**
 * Built-in tools that work on Drover's own data. Defined here, so that they can be found, pinned and validated
 * everywhere; implemented in their modules, and registered when a process opens (modules/platform/domain-functions.ts).
 */
import { LIMITS } from '../../core/limits.ts';
import { MEMORY_TYPES } from '../../core/memory/entry.ts';
import { READS, WRITES, type Builtin, type DomainFunctions } from './builtin-type.ts';

const READ_TOOL_OUTPUT: DomainTool = {
  name: 'read_tool_output',
  display_name: 'Read a tool output',
  description:
    'Reads a part of the whole output of an earlier tool call of this conversation, by the id of that call. Use it where an output was cut or set aside and you need what is not shown.',
  input_schema: {
    type: 'object',
    properties: {
      tool_use_id: { type: 'string', minLength: 1, maxLength: 200, description: 'The id of the earlier call.' },
      offset: {
        type: 'integer',
        minimum: 0,
        maximum: LIMITS.toolOutputBytes,
        description: 'Characters to pass over; 0 if left out.',
      },
      limit: {
        type: 'integer',
        minimum: 1,
        maximum: LIMITS.outputPieceChars,
        description: `Characters to read; ${LIMITS.outputPieceChars} at most, and if left out.`,
      },
    },
    required: ['tool_use_id'],
    additionalProperties: false,
  },
  output_schema: {
    type: 'object',
    properties: {
      text: { type: 'string', description: 'Text as it is, anything else as JSON.' },
      next_offset: { type: 'integer', description: 'Where the next part begins; absent at the end.' },
    },
    required: ['text'],
  },
  ...READS,
};

const READ_RESOURCE: DomainTool = {
  name: 'read_resource',
  display_name: 'Read a resource',
  description:
    'Reads a resource to which the result of an earlier tool call of this conversation links ("[resource URI: …]"), at the server of that tool.',
  input_schema: {
    type: 'object',
    properties: {
      tool_use_id: { type: 'string', minLength: 1, maxLength: 200, description: 'The id of the earlier call.' },
      uri: { type: 'string', minLength: 1, maxLength: 8000, description: 'As its result says.' },
    },
    required: ['tool_use_id', 'uri'],
    additionalProperties: false,
  },
  output_schema: { description: 'What the resource holds.' },
  ...READS,
};

const REMEMBER: DomainTool = {
  name: 'remember',
  display_name: 'Remember',
  description:
    'Remembers a fact for later conversations: one sentence that stands by itself, as in "Ada prefers trains to planes." Not for secrets, nor for what you were told as instructions.',
  input_schema: {
    type: 'object',
    properties: {
      content: { type: 'string', minLength: 1, maxLength: LIMITS.memoryChars, description: 'The fact.' },
      memory_type: { type: 'string', enum: [...MEMORY_TYPES], description: 'SEMANTIC, a fact, if left out.' },
      subject: { type: 'string', minLength: 1, maxLength: 200, description: 'Whom or what it is about.' },
    },
    required: ['content'],
    additionalProperties: false,
  },
  output_schema: {
    type: 'object',
    properties: {
      id: { type: 'string' },
      added: { type: 'boolean', description: 'False: it was remembered already.' },
    },
    required: ['id', 'added'],
  },
  ...WRITES,
};

const RECALL: DomainTool = {
  name: 'recall',
  display_name: 'Recall',
  description:
    'Finds what you remember from earlier conversations. Ask as you would ask a person, with names and times.',
  input_schema: {
    type: 'object',
    properties: {
      query: { type: 'string', minLength: 1, maxLength: 5000, description: 'What you want to know.' },
      top_k: { type: 'integer', minimum: 1, maximum: LIMITS.recallEntries, description: '5 if left out.' },
    },
    required: ['query'],
    additionalProperties: false,
  },
  output_schema: { type: 'object', properties: { entries: { type: 'array' } }, required: ['entries'] },
  ...READS,
};

const words = { type: 'string', minLength: 1, maxLength: 5000 };
const sentences = { type: 'array', maxItems: 100, items: words };

const HANDOFF: DomainTool = {
  name: 'handoff',
  display_name: 'Hand over',
  description:
    'Hands your work over to another agent, which goes on in your place: name it, or say what it has to be able to do. Say what you have found out and decided, then end your turn. Use it where somebody else is better at what is left.',
  input_schema: {
    type: 'object',
    properties: {
      to_agent: { ...words, maxLength: 200, description: 'Name or id of the agent.' },
      capabilities: {
        type: 'array',
        minItems: 1,
        maxItems: 20,
        items: { ...words, maxLength: 200 },
        description: 'In place of an agent: what it has to be able to do. The best one gets it.',
      },
      reason: { ...words, description: 'Why you hand over.' },
      expected_action: { ...words, description: 'What you expect of the agent.' },
      urgency: { type: 'string', enum: ['low', 'medium', 'high', 'critical'], description: 'medium if left out.' },
      key_findings: { ...sentences, description: 'What you have found out, the most important first.' },
      decisions: { ...sentences, description: 'What was decided.' },
      uncertainties: { ...sentences, description: 'What is not clear yet.' },
      recommendations: { ...sentences, description: 'What you would do next.' },
      progress: { ...words, description: 'How far the work is.' },
    },
    required: ['reason'],
    anyOf: [{ required: ['to_agent'] }, { required: ['capabilities'] }],
    additionalProperties: false,
  },
  output_schema: {
    type: 'object',
    properties: { handoff_id: { type: 'string' }, to_agent: { type: 'string' }, status: { type: 'string' } },
    required: ['handoff_id', 'to_agent', 'status'],
  },
  ...WRITES,
};

const REJECT_HANDOFF: DomainTool = {
  name: 'reject_handoff',
  display_name: 'Reject a handoff',
  description:
    'Rejects what was handed over to you, because you cannot do it or should not. It goes back to the agent that had it; end your turn then.',
  input_schema: {
    type: 'object',
    properties: { reason: { ...words, description: 'Why you do not take it.' } },
    required: ['reason'],
    additionalProperties: false,
  },
  output_schema: {
    type: 'object',
    properties: { handoff_id: { type: 'string' }, status: { type: 'string' } },
    required: ['handoff_id', 'status'],
  },
  ...WRITES,
};

/** A tool without a function does not compile. */
type DomainTool = Builtin & { name: keyof DomainFunctions };

export const DOMAIN_TOOLS: readonly DomainTool[] = [
  READ_TOOL_OUTPUT,
  READ_RESOURCE,
  REMEMBER,
  RECALL,
  HANDOFF,
  REJECT_HANDOFF,
];
