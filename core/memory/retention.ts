/** Retention policies of shared memory: how long a fragment is kept after its last write. Pure. */

const UNITS_MS: Readonly<Record<string, number>> = {
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
  m: 30 * 86_400_000,
  y: 365 * 86_400_000,
};

/** Later years cannot be written; such a time means for ever. */
const LAST_MS = Date.UTC(9999, 11, 31);

const SHORT = /^(\d{1,6})\s*(h|d|w|m|y|hours?|days?|weeks?|months?|years?)$/i;
const ISO = /^P(?:(\d{1,6})Y)?(?:(\d{1,6})M)?(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(\d{1,6})H)?$/i;

/** Expiry of a fragment written now: `30d`, `12 hours`, `6 months` or ISO 8601 (`P30D`). Null for other policies, which are mere names. */
export function retainedUntil(policy: string | null, now: Date): Date | null {
  const ms = policy === null ? 0 : lengthMs(policy.trim());
  const until = now.getTime() + ms;
  return ms > 0 && until <= LAST_MS ? new Date(until) : null;
}

function lengthMs(policy: string): number {
  const [, count = '', unit = ''] = SHORT.exec(policy) ?? [];
  if (unit !== '') return Number(count) * (UNITS_MS[unit.slice(0, 1).toLowerCase()] ?? 0);
  const [, ...parts] = ISO.exec(policy) ?? [];
  return ['y', 'm', 'w', 'd', 'h'].reduce((sum, name, at) => sum + Number(parts[at] ?? 0) * (UNITS_MS[name] ?? 0), 0);
}
