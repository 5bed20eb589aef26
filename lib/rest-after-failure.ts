export interface RestAfterFailure {
  /** Resolves as `act` does; undefined if it fails, and without calling it during the pause after a failure. */
  attempt: <T>(act: () => Promise<T>) => Promise<T | undefined>;
  /** Ends the pause. */
  end: () => void;
}

const REST_MS = 2000;

/** After a failure skips calls for a while, so that nobody waits for a dead service. */
export function restAfterFailure(onError: (error: unknown) => void, restMs = REST_MS): RestAfterFailure {
  let untilMs = 0;
  return {
    attempt: async (act) => {
      if (performance.now() < untilMs) return undefined;
      try {
        return await act();
      } catch (error) {
        onError(error);
        untilMs = performance.now() + restMs;
        return undefined;
      }
    },
    end: () => {
      untilMs = 0;
    },
  };
}
