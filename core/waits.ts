/** What runs can wait for, and which signal answers which wait. */

export type WaitType = 'user' | 'webhook' | 'timer' | 'tool_results' | 'child';

/** A wait is answered by a signal of the same type and name. */
export interface Wait {
  type: WaitType;
  name: string | null;
}

/** A signal that came before anything waited for it. */
export interface KeptSignal {
  id: string;
  type: string;
  name: string | null;
  payload: unknown;
  /** The only call it is for, if it is for one alone. */
  callId: string | null;
}

/** Whether a signal answers a call. */
export function isAnswer(signal: KeptSignal, call: { id: string; wait: Wait | null }): boolean {
  if (signal.callId !== null) return signal.callId === call.id;
  return signal.type === call.wait?.type && signal.name === call.wait.name;
}

/** The id of the signal that a webhook's address brings: its call has one address, which brings one signal. */
export function webhookSignalId(callId: string): string {
  return `webhook ${callId}`;
}

/** Whether nobody vouches for a signal: it came to a webhook's address, which takes no key. */
export function isUnvouched({ id, callId }: Pick<KeptSignal, 'id' | 'callId'>): boolean {
  return callId !== null && id === webhookSignalId(callId);
}
