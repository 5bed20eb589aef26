/** Version of the payloads that this build knows; one without `version` is of the first. */
export const PAYLOAD_VERSION = 1;

/** Options of every job: BullMQ retries infrastructure errors only; failed jobs stay visible for a while. */
export const JOB_OPTIONS = {
  attempts: 5,
  backoff: { type: 'exponential', delay: 1000, jitter: 0.5 },
  removeOnComplete: { count: 500, age: 3600 },
  removeOnFail: { count: 5000, age: 7 * 86_400 },
};

/** Options of a job that is sent or reconciled. */
export function jobOptions({ recurs }: { recurs?: true | undefined }) {
  return recurs ? { ...JOB_OPTIONS, removeOnComplete: true } : JOB_OPTIONS;
}

/** Options of a job that recurs by the clock: its id is free once it has ended, in whatever way. */
export const RECURRING_JOB_OPTIONS = { attempts: 1, removeOnComplete: true, removeOnFail: true };
