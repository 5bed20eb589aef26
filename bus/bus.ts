/**
 * A message to other processes about its `subject`: a run, a thread or a key that has advanced, or a call that its MCP
 * client has cancelled; no two of these share an id. It is a hint: it may be lost, and the log has the truth.
 */
export type BusMessage =
  /**
   * `isWorking`: no turn has begun, ended or started to wait for an answer, so only watchers of the run need it. Older
   * releases omit it.
   */
  | { subject: string; kind: 'advanced'; seq: number; isWorking?: true }
  | {
      subject: string;
      kind: 'delta';
      turnId: string;
      step: number;
      delta: { type: 'text' | 'thinking'; text: string };
      /**
       * Characters of the answer, reasoning included, before this piece; 0 begins the answer, or restarts it. Older
       * releases omit it.
       */
      at?: number;
      /** Told again, to a process where somebody has begun to watch. */
      isAgain?: true;
    }
  /** A piece of a call's JSON arguments while the model writes them. Older releases do not know it. */
  | {
      subject: string;
      kind: 'call_piece';
      turnId: string;
      step: number;
      /** The id that the call will have in the log. */
      callId: string;
      /** The call's index in the answer, from 0. */
      place: number;
      tool: string;
      text: string;
      /** Characters of the call's arguments before this piece; 0 begins the call. */
      at: number;
      /** Characters of the answer, reasoning included, before its calls. */
      after: number;
      /** As of a delta. */
      isAgain?: true;
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
  /** The tenant's policies or suspensions have changed: the run's driver reads them before its next call. */
  | { subject: string; kind: 'governed' }
  /**
   * Drivers with a fence lower than `below` have lost the run, and calls of the turn are no longer awaited; without
   * `turnId`, calls of any turn. The next driver and calls of the next turn may receive it, too.
   */
  | { subject: string; kind: 'abort'; reason: 'cancel' | 'interrupt'; below?: number; turnId?: string };

/** What processes tell each other about watchers. It concerns many runs; an earlier release ignores it. */
export type LiveSignal =
  /**
   * `runs` has ids of runs and threads; `by` is the watching process. Releases without an address get what is sent to all.
   * `isNew`: nobody watched them there before.
   */
  | { subject: ''; kind: 'watched'; runs: readonly string[]; by?: string; isNew?: true }
  | { subject: ''; kind: 'who_watches' };

export interface Bus {
  /**
   * Sends soon, batched with other messages; never throws. A long delta arrives in pieces. Deltas, pieces of calls,
   * progress and steps in the middle of a turn are sent only to processes that watch the subject.
   */
  publish(message: BusMessage): void;
  /**
   * Like `subscribe`, and also receives steps, deltas and progress, which are published while somebody watches. Of an answer that is
   * being written it receives the pieces from the first one on.
   */
  watch(subject: string, onMessage: (message: BusMessage) => void): () => void;
  /**
   * Receives messages of a subject from all processes, this one too, in each sender's order; not those for watchers.
   * Returns a function that ends it.
   */
  subscribe(subject: string, onMessage: (message: BusMessage) => void): () => void;
  /** Called when messages may have been lost and arrive again: read the log. Returns a function that ends it. */
  onGap(listener: () => void): () => void;
  /** Sends what is left, then closes. */
  close(): Promise<void>;
}
