/**
 * Intents: what an answer of a model proposes, typed and validated before anything else happens to it. One that is not
 * valid goes back to the model as an observation, so many answers in a row and no more.
 */
import { textOf, type AssistantBlock, type ToolUseBlock } from './content.ts';
import type { FieldError } from './errors.ts';
import { LIMITS } from './limits.ts';
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
}

type Tools = ReadonlyMap<string, ToolDefinition>;

/** What an answer proposes: calls, or a plan of them where they are `LIMITS.planCalls` or more, or its text as the end. */
export function intentsOf({ content, paused }: Answer, tools: Tools): Intent[] {
  const calls = content.flatMap((block): CallIntent[] =>
    block.type === 'tool_use' ? [{ kind: kindOf(block, tools), use: block }] : [],
  );
  if (calls.length >= LIMITS.planCalls) return [{ kind: 'plan', calls }];
  if (calls.length > 0) return calls;
  return paused ? [] : [{ kind: 'complete', text: textOf(content) }];
}

/** The calls that are proposed, alone or in a plan, in their order. */
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
export interface IntentFault {
  code: 'unknown_tool' | 'invalid_arguments' | 'too_many_calls';
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
    const message = `Invalid arguments: a JSON object, nested at most ${ARGUMENT_DEPTH} levels deep, was expected.`;
    return { code, message };
  }
  const faults = validate(tool.input_schema, call.arguments);
  if (faults.length === 0) return undefined;
  const message = `Invalid arguments: ${faults.map((fault) => `${fault.path || '/'}: ${fault.message}`).join('; ')}.`;
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
  turn: { invalid?: { step: number; answers: number } } | null;
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
export const isLost = (state: Counted) => invalidAnswers(state) >= LIMITS.invalidAnswers;

/** Error code of such a turn. */
export const INVALID_INTENTS = 'invalid_intents';
