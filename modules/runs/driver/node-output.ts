/** The output of a graph's node: read from the conversation, or from the ledger if it is too large for that. */
import type { TwoReadings } from '../../../core/cel-shape.ts';
import { textOf, type Json } from '../../../core/content.ts';
import type { TurnInput } from '../../../core/events.ts';
import type { NodeOutcome } from '../../../core/graph/position.ts';
import { textOfValue } from '../../../core/graph/template.ts';
import { cutText } from '../../../core/tool-output.ts';
import type { CallOutcome } from '../../../db/claim-run.ts';
import { readWholeOutput } from '../../../db/outputs.ts';
import { resultText } from '../../run-log/conversation.ts';
import type { Drive } from './drive-state.ts';

export interface NodeOutput {
  /** For models. */
  text: string;
  /** For expressions. */
  readings: TwoReadings;
  /** Nobody vouches for it. */
  untrusted: boolean;
}

/**
 * The output of a node with this outcome; without a message of its own, the turn's input. Undefined if the message is not
 * loaded any more.
 */
export async function readOutput(drive: Drive, outcome: NodeOutcome | undefined): Promise<NodeOutput | undefined> {
  const { log } = drive;
  if (outcome?.ordinal === undefined) return ofInput(log.state.turn?.input);
  const message = log.messages[outcome.ordinal - log.before.messages];
  if (!message) return undefined;
  const call = log.state.calls.find(({ id }) => id === outcome.tool_call_id);
  const untrusted = message.trust === 'untrusted' || call?.untrusted === true;
  if (outcome.tool_call_id === undefined) return { ...ofText(textOf(message.content)), untrusted };
  const result = message.outcomes?.[outcome.tool_call_id];
  return { ...(await ofCall(drive, { result, outcome })), untrusted };
}

function ofInput(input: TurnInput | undefined): NodeOutput {
  return { ...ofText(input?.message ?? ''), untrusted: input?.untrusted ?? false };
}

type Read = Omit<NodeOutput, 'untrusted'>;

/** A text has two readings: as it is, and as the fields of a JSON object, if it is one. */
function ofText(text: string): Read {
  return { text, readings: readingsOf(text) };
}

/** Both readings of a text. */
export function readingsOf(text: string): TwoReadings {
  return { plain: text, fields: fieldsOf(parsed(text), text) };
}

function fieldsOf(value: Json | undefined, text: string): unknown {
  if (Array.isArray(value)) return value;
  return { message: text, ...(typeof value === 'object' && value) };
}

function parsed(text: string): Json | undefined {
  const first = text.trimStart()[0];
  if (first !== '{' && first !== '[') return undefined;
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

interface OfCall {
  result: CallOutcome | undefined;
  outcome: NodeOutcome;
}

async function ofCall(drive: Drive, { result, outcome }: OfCall): Promise<Read> {
  const { content } = resultText(result);
  const said = typeof content === 'string' ? content : textOf(content);
  if (outcome.status !== 'succeeded') {
    const fields = { status: outcome.status, message: said, error: { message: said }, approved: false };
    return { text: said, readings: { plain: said, fields } };
  }
  const value = result?.content ? await readLedger(drive, outcome.tool_call_id ?? '') : (result?.output ?? null);
  // Cut for models only where a node passes it to one.
  if (typeof value === 'string') return { text: said, readings: readingsOf(value) };
  const alone = messageAlone(value);
  if (alone !== undefined) return { text: cutText(alone), readings: { plain: alone, fields: value } };
  const fields = typeof value === 'object' && value !== null ? value : { value, message: textOfValue(value) };
  return { text: said, readings: { plain: value, fields } };
}

/** The text of an object with nothing but a `message`, like the answers of people. */
function messageAlone(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || Object.keys(value).length !== 1) return undefined;
  const { message } = value as { message?: unknown };
  return typeof message === 'string' ? message : undefined;
}

function readLedger({ context, tenantId }: Drive, callId: string): Promise<unknown> {
  return context.db.withTenant(tenantId, (tx) => readWholeOutput(tx, callId));
}
