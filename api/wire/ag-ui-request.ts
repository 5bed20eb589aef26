/** What AG-UI clients post: messages, and answers to interrupts. */
import { z } from 'zod';
import { conflict, impossible } from '../../core/errors.ts';
import { fixedId } from '../../core/ids.ts';
import type { TurnInput } from '../../core/events.ts';
import { MESSAGE_MODES, type Answerable, type MessageMode, type WaitAnswer } from '../../modules/sessions/converse.ts';
import { decisionBody, toDecision } from '../runs/decision-schema.ts';

const message = z.looseObject({ id: z.string().min(1).max(200), role: z.string(), content: z.unknown().optional() });

const resumeEntry = z.strictObject({
  interruptId: z.string(),
  status: z.enum(['resolved', 'cancelled']),
  payload: z.unknown().optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
});
type ResumeEntry = z.output<typeof resumeEntry>;

/** `RunAgentInput` of AG-UI 1.0. */
export const runAgentInput = z
  .strictObject({
    threadId: z.string().min(1).max(200).describe("A thread's id, or a name of the client's own for one."),
    runId: z.string().min(1).max(200).describe("The client's name for this exchange, which it is told again."),
    protocolVersion: z.string().optional(),
    parentRunId: z.string().optional(),
    state: z.unknown().optional(),
    messages: z.array(message),
    tools: z.array(z.unknown()).optional().describe("Passed by: the agent's own tools are used."),
    context: z.array(z.unknown()).optional(),
    forwardedProps: z
      .unknown()
      .optional()
      .describe('`{drover: {mode}}`: what becomes of a message while a turn is open, `queue`, `steer` or `reject`.'),
    resume: z.array(resumeEntry).optional().describe('Answers to all open interrupts.'),
  })
  .meta({ id: 'RunAgentInput' });
export type RunAgentInput = z.output<typeof runAgentInput>;

const props = z.looseObject({ drover: z.strictObject({ mode: z.enum(MESSAGE_MODES).optional() }).optional() });

/** What to do with a message while a turn is open. Throws 422. */
export function modeOf({ forwardedProps }: RunAgentInput): MessageMode | undefined {
  if (typeof forwardedProps !== 'object' || forwardedProps === null) return undefined;
  const { data } = props.safeParse(forwardedProps);
  if (data) return data.drover?.mode;
  const text = 'must be {mode: "queue" | "steer" | "reject"}';
  throw impossible(`forwardedProps.drover ${text}.`, [{ path: 'body.forwardedProps.drover', message: text }]);
}

/** The id of a waiting message, derived from the client's own, so that each can be found by the other. */
export function messageIdOf(threadId: string, id: string): string {
  return fixedId(`message of thread ${threadId}: ${id}`);
}

/** The id of a turn's input in snapshots: a client that sends it back says nothing new. */
export const inputId = (turnId: string) => `${turnId}.input`;
const INPUT_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.input$/;

export interface SaidMessage {
  id: string;
  input: TurnInput;
}

/** The last message, if it is the user's and `resume` is empty; its id makes it be said once. */
export function inputOf(body: RunAgentInput): SaidMessage | undefined {
  return (body.resume ?? []).length > 0 ? undefined : lastSaid(body);
}

/**
 * As `inputOf`, if the message comes with answers: clients send nothing while an interrupt is open. If there are only
 * answers, the user's last message is the one that began the turn.
 */
export function inputBeside(body: RunAgentInput, turn: { id: string; said: string }): SaidMessage | undefined {
  const last = lastSaid(body);
  const isSince = body.messages.slice(0, -1).some(({ id }) => id.startsWith(`${turn.id}.`));
  return isSince || last?.input.message !== turn.said ? last : undefined;
}

/** The last message, if it is the user's. Throws 422 for one without text. */
export function lastSaid({ messages }: RunAgentInput): SaidMessage | undefined {
  const last = messages.at(-1);
  if (last?.role !== 'user' || INPUT_ID.test(last.id)) return undefined;
  const text = textOf(last.content);
  if (text === '')
    throw impossible('The last message has no text.', [{ path: 'body.messages', message: 'has no text' }]);
  return { id: last.id, input: { message: text } };
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  const parts = z.array(z.looseObject({ type: z.string() })).safeParse(content).data ?? [];
  const texts = parts.map(({ type, text }) => {
    if (type === 'text' && typeof text === 'string') return text;
    throw impossible(`A message of parts takes text, not ${type === 'text' ? 'a part without any' : type}.`, [
      { path: 'body.messages', message: 'must be text' },
    ]);
  });
  return texts.join('\n');
}

/** Interrupts in `resume` that are not open: answered by others, or never asked. */
export function passedOver({ resume = [] }: RunAgentInput, answers: readonly WaitAnswer[]): string[] {
  const taken = new Set(answers.map(({ waitId }) => waitId));
  return resume.flatMap(({ interruptId }) => (taken.has(interruptId) ? [] : [interruptId]));
}

/**
 * Answers to open interrupts: from `resume`, or client tools' results in the last messages. Throws 409 if `resume`
 * leaves one out, 422 if it has one twice.
 */
export function answersOf(body: RunAgentInput, open: readonly Answerable[]): WaitAnswer[] {
  const { resume = [] } = body;
  const asked = open.filter(({ type }) => type !== 'timer' && type !== 'webhook');
  const isGiven = ({ id }: Answerable) => resume.some(({ interruptId }) => interruptId === id);
  const twice = resume.findIndex(
    (entry, at) => at > resume.findIndex((each) => each.interruptId === entry.interruptId),
  );
  if (twice !== -1) {
    const path = `body.resume.${twice}.interruptId`;
    throw impossible('An interrupt is answered once in a resume.', [{ path, message: 'is answered already' }]);
  }
  const missing = asked.filter((wait) => !isGiven(wait)).map(({ id }) => id);
  if (asked.some(isGiven) && missing.length > 0) {
    throw conflict('All open interrupts are answered in one resume.', { wait_ids: missing });
  }
  return asked.flatMap((wait) => {
    const entry = resume.find(({ interruptId }) => interruptId === wait.id);
    return entry ? [answerOf(entry, wait)] : toolAnswer(body, wait);
  });
}

function answerOf({ status, payload }: ResumeEntry, wait: Answerable): WaitAnswer {
  const { id: waitId, type, tool_use_id } = wait;
  const isCancelled = status === 'cancelled';
  if (type === 'approval') {
    const decided = isCancelled ? refusalOf(wait) : decisionOf(payload);
    return { waitId, kind: 'decision', decided };
  }
  const said = isCancelled ? 'The user gave no answer.' : messageIn(payload);
  if (type === 'user') return { waitId, kind: 'answer', message: said };
  const content = isCancelled ? said : payload;
  return {
    waitId,
    kind: 'tool_results',
    results: [{ tool_use_id: tool_use_id ?? '', content, ...(isCancelled && { is_error: true }) }],
  };
}

const words = z.string().max(5000).nullish();
/** As AG-UI recommends. Strict: the decision might depend on an unknown field. */
const approving = z.strictObject({
  approved: z.literal(true),
  message: words,
  editedArgs: z.record(z.string(), z.unknown()).nullish(),
});
const denying = z.strictObject({ approved: z.literal(false), message: words, editedArgs: z.null().optional() });

/** A cancelled interrupt makes no call: not again, if an attempt may have had its effect. */
function refusalOf({ is_unknown: isUnknown }: Answerable) {
  return { decision: isUnknown ? ('give_up' as const) : ('deny' as const), reason: undefined };
}

/** Reads `true`, `{approved}`, or a decision of the API. Throws 422. */
function decisionOf(payload: unknown) {
  if (payload === false) return { decision: 'deny' as const, reason: undefined };
  if (payload === true) return { decision: 'approve' as const, reason: undefined };
  const refused = denying.safeParse(payload).data;
  if (refused) return { decision: 'deny' as const, reason: refused.message ?? undefined };
  const taken = approving.safeParse(payload).data;
  if (taken) {
    const reason = taken.message ?? undefined;
    if (!taken.editedArgs) return { decision: 'approve' as const, reason };
    return { decision: 'edit' as const, arguments: taken.editedArgs, reason };
  }
  const { data } = decisionBody.safeParse(payload);
  if (data) return toDecision(data, 'body.resume.payload');
  const text = 'must be true or false, {approved, message?, editedArgs?}, or a decision';
  throw impossible(`The payload of an approval ${text}.`, [{ path: 'body.resume', message: text }]);
}

function messageIn(payload: unknown): string {
  if (typeof payload === 'string') return payload;
  const known = z
    .looseObject({ message: z.string().optional(), answer: z.string().optional() })
    .safeParse(payload).data;
  return known?.answer ?? known?.message ?? JSON.stringify(payload ?? null);
}

function toolAnswer({ messages }: RunAgentInput, { id: waitId, type, tool_use_id }: Answerable): WaitAnswer[] {
  const given = messages.findLast(({ role, ...rest }) => role === 'tool' && rest['toolCallId'] === waitId);
  if (!given || type !== 'tool_results' || tool_use_id === null) return [];
  const isError = typeof given['error'] === 'string';
  const content = isError ? given['error'] : given.content;
  return [{ waitId, kind: 'tool_results', results: [{ tool_use_id, content, ...(isError && { is_error: true }) }] }];
}
