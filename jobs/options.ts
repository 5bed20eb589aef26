/** Options of every job: BullMQ repeats infrastructure errors only; what failed for good stays visible for a while. */
export const JOB_OPTIONS = {
  attempts: 5,
  backoff: { type: 'exponential', delay: 1000, jitter: 0.5 },
  removeOnComplete: { count: 500, age: 3600 },
  removeOnFail: { count: 5000, age: 7 * 86_400 },
};
