/**
 * Intents: what an answer of a model proposes, typed and validated before anything else happens to it. One that is not
 * valid goes back to the model as an observation, so many answers in a row and no more.
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
  /** Decided on as a whole. */
  | { kind: 'plan'; calls: CallIntent[] }
  /** The answer to the turn's input. */
  | { kind: 'complete'; text: string };

export interface Answer {
  content: readonly AssistantBlock[];
  /** The model will go on with it when it is asked again: without a call it proposes nothing yet. */
  paused: boolean;
  /** The model refuses, or is not asked again: then it is an answer with or without a text. */
  isLast?: boolean | undefined;
}

type Tools = ReadonlyMap<string, ToolDefinition>;

/**
 * What an answer proposes: calls, or a batch of them where they are `LIMITS.callBatchMin` or more, or its text as the end;
 * nothing where it pauses, and where it is empty.
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

/** Why an answer that proposes nothing holds nothing either. */
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

/** The calls that are proposed, alone or in a call batch, in their order. */
export function callsOf(intents: readonly Intent[]): CallIntent[] {
  return intents.flatMap((intent): CallIntent[] => {
    if (intent.kind === 'complete') return [];
    return intent.kind === 'plan' ? intent.calls : [intent];
  });
}

/** A tool of another transport may have the same name: it is called like any other. */
function kindOf({ name }: ToolUseBlock, tools: Tools): CallIntent['kind'] {
  return name === ASK_USER_TOOL && tools.get(name)?.transport.type === 'builtin' ? 'ask_user' : 'tool_call';
}

/** Why an intent is not valid, as the model reads it. */
interface IntentFault {
  code: 'unknown_tool' | 'invalid_arguments' | 'too_many_calls';
  message: string;
}

/** The same of an answer as a whole. Only an empty one may be another when the model is asked again. */
export interface EmptyFault {
  code: 'empty_answer' | 'output_limit' | typeof CONTEXT_OVERFLOW;
  message: string;
}

export interface OfferedTools {
  tools: Tools;
  validate: (schema: Record<string, unknown>, args: Record<string, unknown>) => FieldError[];
}

/** What is wrong with a call, whoever asks for it; undefined if it is one of a known tool with arguments that fit. */
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
    const message = `Invalid arguments: a JSON object, nested at most ${ARGUMENT_DEPTH} levels deep, with numbers that a double can hold (longer integers as strings), was expected.`;
    return { code, message };
  }
  const faults = validate(tool.input_schema, call.arguments);
  if (faults.length === 0) return undefined;
  const message = `Invalid arguments: ${faults.map(({ message: fault }) => fault).join('; ')}.`;
  return { code, message };
}

function isRaw(args: Record<string, unknown>, { input_schema: schema }: ToolDefinition): boolean {
  const properties = (schema['properties'] ?? {}) as Record<string, unknown>;
  return RAW_ARGUMENTS in args && Object.keys(args).length === 1 && !(RAW_ARGUMENTS in properties);
}

/** What is wrong with the call at a place of an answer for its place alone. */
export function faultOfPlace(name: string, place: number): IntentFault | undefined {
  if (place < LIMITS.toolCallsPerStep) return undefined;
  const message = `Only ${LIMITS.toolCallsPerStep} calls may be made in one answer; "${name}" was not called.`;
  return { code: 'too_many_calls', message };
}

/** The part of a run's state that counts them. */
interface Counted {
  steps: number;
  turn: { invalid?: { step: number; answers: number; empty?: { code: string; message: string } } } | null;
}

/** Answers in a row, the last one included, in which no intent was valid. */
export function invalidAnswers({ steps, turn }: Counted): number {
  return turn?.invalid?.step === steps ? turn.invalid.answers : 0;
}

/** The same before the last answer, whose intents are being looked at. */
export function invalidAnswersBefore({ steps, turn }: Counted): number {
  return invalidAnswers({ steps: steps - 1, turn });
}

/** The model has had its chances: its turn ends. */
export function isLost(state: Counted): boolean {
  const answers = invalidAnswers(state);
  const empty = state.turn?.invalid?.empty;
  return answers >= LIMITS.invalidAnswers || (answers > 0 && empty !== undefined && empty.code !== 'empty_answer');
}

/** Error code of such a turn. */
export const INVALID_INTENTS = 'invalid_intents';
