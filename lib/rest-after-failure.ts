export interface RestAfterFailure {
  /** What `act` answers; undefined where it fails, and without asking while what has failed is left alone. */
  attempt: <T>(act: () => Promise<T>) => Promise<T | undefined>;
  /** It is asked again at once. */
  end: () => void;
}

const REST_MS = 2000;

/** Leaves what has failed alone for a while: nobody is to wait for what does not answer. */
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
