/**
 * What one process tells the others about its `subject`: a run, or a thread or a key that has advanced, or a call that its MCP client has cancelled; no two of these share an id. A hint: it
 * may be lost, and the log has the truth.
 */
export type BusMessage =
  /** With `isWorking` no turn has begun, ended or come to ask something: that is for who watches the run alone. Older releases do not say. */
  | { subject: string; kind: 'advanced'; seq: number; isWorking?: true }
  | {
      subject: string;
      kind: 'delta';
      turnId: string;
      step: number;
      delta: { type: 'text' | 'thinking'; text: string };
      /** So many characters of the answer, reasoning included, came before it; 0 begins the answer, or begins it again. Older releases do not say. */
      at?: number;
    }
  /** A piece of the arguments of a call that the model is writing, as JSON. Older releases know nothing of it. */
  | {
      subject: string;
      kind: 'call_piece';
      turnId: string;
      step: number;
      /** The call's, once it is in the log. */
      callId: string;
      /** Which of the answer's calls, from 0. */
      place: number;
      tool: string;
      text: string;
      /** So many characters of its arguments came before it; 0 begins the call. */
      at: number;
      /** So many characters of the answer, reasoning included, came before its calls. */
      after: number;
    }
  | {
      subject: string;
      kind: 'progress';
      turnId: string;
      callId: string;
      tool: string;
      progress: number;
      total: number | undefined;
      message: string | undefined;
    }
  /** The tenant's policies or suspensions have changed: the driver of the run reads them before its next call. */
  | { subject: string; kind: 'governed' }
  /**
   * Drivers that hold the run by a lower fence than `below` have lost it, and calls of the turn are not waited for any more: those
   * of every turn without `turnId`. The driver after them and the calls of the next turn may hear it, too.
   */
  | { subject: string; kind: 'abort'; reason: 'cancel' | 'interrupt'; below?: number; turnId?: string };

/** What processes tell each other about who watches. It is about many runs; an earlier release leaves it out. */
export type LiveSignal =
  /** Of runs, and of threads. By the process at this address. Some releases have none, and receive what is sent to all. */
  { subject: ''; kind: 'watched'; runs: readonly string[]; by?: string } | { subject: ''; kind: 'who_watches' };

export interface Bus {
  /**
   * Sends soon, together with what else is sent at that moment; never throws. A long delta arrives in pieces. Deltas, pieces of calls,
   * progress and steps in the middle of a turn are sent only to the processes where somebody watches the subject.
   */
  publish(message: BusMessage): void;
  /** As `subscribe`, for who also shows steps, deltas and progress: they are published for as long as somebody does. */
  watch(subject: string, onMessage: (message: BusMessage) => void): () => void;
  /** Messages of one subject, of all processes, this one too, in the order in which a process sent them, but for those that only watchers are sent. Gives the end of it. */
  subscribe(subject: string, onMessage: (message: BusMessage) => void): () => void;
  /** Called when messages may have been lost and come again from now on: look into the log. Gives the end of it. */
  onGap(listener: () => void): () => void;
  /** Sends what is left, and ends. */
  close(): Promise<void>;
}
