/** Requests to ACP clients, and the meaning of their answers. */
import type {
  ClientCapabilities,
  CreateElicitationRequest,
  CreateElicitationResponse,
  PermissionOption,
  RequestPermissionRequest,
  RequestPermissionResponse,
} from '@agentclientprotocol/sdk';
import { CreateElicitationResponse as Elicited } from '@agentclientprotocol/sdk';
import type { Caller } from '../../core/caller.ts';
import { hasScope } from '../../core/scopes.ts';
import type { WaitAnswer } from '../../modules/sessions/converse.ts';
import type { AcpAsk } from './acp.ts';
import type { CallPart } from './turn-view.ts';

/** Whether a client can be asked: it needs the right to decide, or a form for questions. */
export function canAsk({ ask }: AcpAsk, caller: Caller, client: ClientCapabilities): boolean {
  if (ask.kind === 'question') return client.elicitation?.form != null;
  return ask.kind !== 'client_tool' && hasScope(caller.scopes, 'approvals:write');
}

const YES_OR_NO: PermissionOption[] = [
  { optionId: 'approve', name: 'Allow', kind: 'allow_once' },
  { optionId: 'deny', name: 'Reject', kind: 'reject_once' },
];

/** For a call that may have had its effect. */
const OUTCOMES: PermissionOption[] = [
  { optionId: 'happened', name: 'It has happened', kind: 'allow_once' },
  { optionId: 'rerun', name: 'Send it again', kind: 'allow_once' },
  { optionId: 'give_up', name: 'Give it up', kind: 'reject_once' },
];

/** Asks permission for one call, for all calls of a batch, or for something that is not about a call. */
export function permissionFor({ ask, calls }: AcpAsk, sessionId: string): RequestPermissionRequest {
  const { id, kind, message } = ask;
  const [only] = calls.length === 1 ? calls : [];
  const toolCall = only
    ? { toolCallId: only.id, title: only.tool, rawInput: only.input }
    : { toolCallId: id, title: titleOf(calls, message), rawInput: { calls: calls.map(toStep) } };
  const content =
    message === '' ? [] : [{ type: 'content' as const, content: { type: 'text' as const, text: message } }];
  return {
    sessionId,
    toolCall: { ...toolCall, kind: 'other', status: 'pending', content },
    options: kind === 'unknown' ? OUTCOMES : YES_OR_NO,
    _meta: { drover: { wait_id: id, kind } },
  };
}

function titleOf(calls: readonly CallPart[], message: string): string {
  return calls.length === 0 ? message : `Plan of ${calls.length} calls: ${calls.map(({ tool }) => tool).join(', ')}`;
}

const toStep = ({ id, tool, input }: CallPart) => ({ tool_call_id: id, tool, input });

const NOT_OFFERED = 'The client has chosen an option that it was not offered.';

/**
 * The decision; undefined if the client gives none. An option that was not offered counts as rejection: by the protocol
 * such a request is not approved (v2, `RequestPermissionOutcome`), and nobody would be asked again.
 */
export function decided({ ask }: AcpAsk, { outcome }: RequestPermissionResponse): WaitAnswer | undefined {
  if (outcome.outcome !== 'selected') return undefined;
  return { waitId: ask.id, kind: 'decision', decided: decisionOf(ask.kind === 'unknown', outcome.optionId) };
}

function decisionOf(isUnknown: boolean, optionId: string): Decided {
  const offered = isUnknown ? OUTCOMES : YES_OR_NO;
  const chosen = offered.find((option) => option.optionId === optionId)?.optionId;
  switch (chosen) {
    case 'approve':
    case 'deny':
    case 'rerun':
    case 'give_up':
      return { decision: chosen, reason: undefined };
    case 'happened':
      return { decision: chosen, result: undefined, reason: undefined };
    default:
      return { decision: isUnknown ? 'give_up' : 'deny', reason: NOT_OFFERED };
  }
}

type Decided = Extract<WaitAnswer, { kind: 'decision' }>['decided'];

export function formFor({ ask }: AcpAsk, sessionId: string): CreateElicitationRequest {
  const requestedSchema = {
    type: 'object' as const,
    properties: { answer: { type: 'string' as const, title: 'Answer' } },
    required: ['answer'],
  };
  return { mode: 'form', sessionId, toolCallId: ask.id, message: ask.message, requestedSchema };
}

export function filledIn({ ask }: AcpAsk, response: CreateElicitationResponse): WaitAnswer | undefined {
  if (Elicited.isDecline(response)) return { waitId: ask.id, kind: 'answer', message: 'The user gave no answer.' };
  const answer = Elicited.isAccept(response) ? response.content?.['answer'] : undefined;
  return answer === undefined ? undefined : { waitId: ask.id, kind: 'answer', message: String(answer) };
}
