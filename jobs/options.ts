/** Version of the payloads that this build knows; one without `version` is of the first. */
export const PAYLOAD_VERSION = 1;

/** Options of every job: BullMQ repeats infrastructure errors only; what failed for good stays visible for a while. */
export const JOB_OPTIONS = {
  attempts: 5,
  backoff: { type: 'exponential', delay: 1000, jitter: 0.5 },
  removeOnComplete: { count: 500, age: 3600 },
  removeOnFail: { count: 5000, age: 7 * 86_400 },
};

/** A job that comes again by itself: its id is free once it has ended, however it did. */
export const RECURRING_JOB_OPTIONS = { attempts: 1, removeOnComplete: true, removeOnFail: true };
