/** What a run waits for from outside, and which signal answers which wait. */

export type WaitType = 'user' | 'webhook' | 'timer' | 'tool_results' | 'child';

/** A wait is answered by a signal of its own type and name. */
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
  /** The call that it is for, where it is for one alone. */
  callId: string | null;
}

/** Whether a signal is what a call waits for. */
export function isAnswer(signal: KeptSignal, call: { id: string; wait: Wait | null }): boolean {
  if (signal.callId !== null) return signal.callId === call.id;
  return signal.type === call.wait?.type && signal.name === call.wait.name;
}
