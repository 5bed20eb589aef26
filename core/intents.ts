/**
 * Intents: what a model's answer proposes, typed and validated first. Invalid ones are returned to the model as observations,
 * for a limited number of answers in a row.
 */
import { textOf, type AssistantBlock, type ToolUseBlock } from './content.ts';
import type { FieldError } from './errors.ts';
import { LIMITS } from './limits.ts';
import { CONTEXT_OVERFLOW, type StopReason } from './model.ts';
import { ARGUMENT_DEPTH, ASK_USER_TOOL, RAW_ARGUMENTS, type ToolDefinition } from './tool.ts';

export const INTENT_KINDS = ['tool_call', 'ask_user', 'complete', 'plan'] as const;

export interface CallIntent {
  kind: 'tool_call' | 'ask_user';
  use: ToolUseBlock;
}

export type Intent =
  | CallIntent
  /** Approved or denied as a whole. */
  | { kind: 'plan'; calls: CallIntent[] }
  /** The final answer to the turn's input. */
  | { kind: 'complete'; text: string };

interface Answer {
  content: readonly AssistantBlock[];
  /** The model will continue when asked again: without a call, nothing is proposed yet. */
  paused: boolean;
  /** The model refuses, or is not asked again: then even an empty text is an answer. */
  isLast?: boolean | undefined;
}

type Tools = ReadonlyMap<string, ToolDefinition>;

/**
 * The intents of an answer: its calls, as one batch from `LIMITS.callBatchMin` on, otherwise its text as the end. None if the
 * answer pauses or is empty.
 */
export function intentsOf({ content, paused, isLast = false }: Answer, tools: Tools): Intent[] {
  const calls = content.flatMap((block): CallIntent[] =>
    block.type === 'tool_use' ? [{ kind: kindOf(block, tools), use: block }] : [],
  );
  if (calls.length >= LIMITS.callBatchMin) return [{ kind: 'plan', calls }];
  if (calls.length > 0) return calls;
  const text = textOf(content);
  return paused || (text.trim() === '' && !isLast) ? [] : [{ kind: 'complete', text }];
}

/** Why an answer was empty. */
export function faultOfEmpty(stopReason: StopReason): EmptyFault {
  switch (stopReason) {
    case 'max_tokens':
      return {
        code: 'output_limit',
        message: 'The model used up its output tokens before it said anything: raise llm_config.max_tokens.',
      };
    case 'model_context_window_exceeded':
      return { code: CONTEXT_OVERFLOW, message: "The conversation left no room for an answer in the model's context." };
    default:
      return { code: 'empty_answer', message: 'The answer held neither text nor a call of a tool.' };
  }
}

/** All proposed calls, alone or in a batch, in order. */
export function callsOf(intents: readonly Intent[]): CallIntent[] {
  return intents.flatMap((intent): CallIntent[] => {
    if (intent.kind === 'complete') return [];
    return intent.kind === 'plan' ? intent.calls : [intent];
  });
}

/** Only the built-in tool counts as `ask_user`: tools of other transports may have the same name. */
function kindOf({ name }: ToolUseBlock, tools: Tools): CallIntent['kind'] {
  return name === ASK_USER_TOOL && tools.get(name)?.transport.type === 'builtin' ? 'ask_user' : 'tool_call';
}

/** Why an intent is invalid, worded for the model. */
interface IntentFault {
  code: 'unknown_tool' | 'invalid_arguments' | 'too_many_calls';
  message: string;
}

/** Why a whole answer is invalid. Only `empty_answer` may change when the model is asked again. */
export interface EmptyFault {
  code: 'empty_answer' | 'output_limit' | typeof CONTEXT_OVERFLOW;
  message: string;
}

export interface OfferedTools {
  tools: Tools;
  validate: (schema: Record<string, unknown>, args: Record<string, unknown>) => FieldError[];
}

/** Validates a call, whoever requests it; undefined if the tool is known and the arguments fit. */
export function faultOf(
  call: { name: string; arguments: Record<string, unknown> },
  { tools, validate }: OfferedTools,
): IntentFault | undefined {
  const tool = tools.get(call.name);
  if (!tool) {
    const offered = [...tools.keys()].join(', ') || 'none';
    return { code: 'unknown_tool', message: `Unknown tool "${call.name}". Available: ${offered}.` };
  }
  const code = 'invalid_arguments';
  if (isRaw(call.arguments, tool)) {
    if (call.arguments[RAW_ARGUMENTS] === '') return { code, message: ARGUMENTS_CUT_OFF };
    const message = `Invalid arguments: a JSON object, nested at most ${ARGUMENT_DEPTH} levels deep, with numbers that a double can hold (longer integers as strings), was expected.`;
    return { code, message };
  }
  const faults = validate(tool.input_schema, call.arguments);
  if (faults.length === 0) return undefined;
  const message = `Invalid arguments: ${faults.map(({ message: fault }) => fault).join('; ')}.`;
  return { code, message };
}

const ARGUMENTS_CUT_OFF =
  'Invalid arguments: your answer was cut off before this call had any. Call again, with {} if it takes none.';

function isRaw(args: Record<string, unknown>, { input_schema: schema }: ToolDefinition): boolean {
  const properties = (schema['properties'] ?? {}) as Record<string, unknown>;
  return RAW_ARGUMENTS in args && Object.keys(args).length === 1 && !(RAW_ARGUMENTS in properties);
}

/** The fault of a call beyond the number that one answer may have. */
export function faultOfPlace(name: string, place: number): IntentFault | undefined {
  if (place < LIMITS.toolCallsPerStep) return undefined;
  const message = `Only ${LIMITS.toolCallsPerStep} calls may be made in one answer; "${name}" was not called.`;
  return { code: 'too_many_calls', message };
}

/** The part of a run's state with the counts. */
interface Counted {
  steps: number;
  turn: { invalid?: { step: number; answers: number; empty?: { code: string; message: string } } } | null;
}

/** Consecutive answers, up to the last one, without a valid intent. */
export function invalidAnswers({ steps, turn }: Counted): number {
  return turn?.invalid?.step === steps ? turn.invalid.answers : 0;
}

/** The same count before the last answer, while its intents are validated. */
export function invalidAnswersBefore({ steps, turn }: Counted): number {
  return invalidAnswers({ steps: steps - 1, turn });
}

/** No attempts are left: the turn ends. */
export function isLost(state: Counted): boolean {
  const answers = invalidAnswers(state);
  const empty = state.turn?.invalid?.empty;
  return answers >= LIMITS.invalidAnswers || (answers > 0 && empty !== undefined && empty.code !== 'empty_answer');
}

/** Error code of a turn that ends this way. */
export const INVALID_INTENTS = 'invalid_intents';
