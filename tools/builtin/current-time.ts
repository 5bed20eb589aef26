import type { ToolAttempt, ToolOutcome } from '../../core/tool.ts';
import { READS, toolError, type Builtin, type BuiltinRuntime } from './builtin-type.ts';

export const CURRENT_TIME: Builtin = {
  name: 'current_time',
  display_name: 'Current time',
  description:
    'Tells the current date and time, in UTC and in a time zone. Use it whenever an answer depends on today, now, or how long ago something was.',
  input_schema: {
    type: 'object',
    properties: {
      timezone: {
        type: 'string',
        minLength: 1,
        maxLength: 100,
        description: 'IANA name such as "Europe/Berlin"; "UTC" if left out.',
      },
    },
    additionalProperties: false,
  },
  output_schema: {
    type: 'object',
    properties: {
      iso: { type: 'string', description: 'The instant in UTC, RFC 3339.' },
      timezone: { type: 'string' },
      local: { type: 'string', description: 'The same instant in the time zone, RFC 3339 with its offset.' },
      unix_ms: { type: 'integer' },
    },
    required: ['iso', 'timezone', 'local', 'unix_ms'],
  },
  ...READS,
};

/** `{timezone?} -> {iso, timezone, local, unix_ms}`. */
export async function tellTime(
  attempt: ToolAttempt<{ timezone?: string }>,
  runtime: BuiltinRuntime,
): Promise<ToolOutcome> {
  const { timezone = 'UTC' } = attempt.arguments;
  const now = runtime.now?.() ?? new Date();
  const local = localTime(now, timezone);
  if (local === undefined) {
    return toolError('unknown-timezone', `"${timezone}" is no IANA time zone name such as "Europe/Berlin" or "UTC".`);
  }
  return { kind: 'succeeded', output: { iso: now.toISOString(), timezone, local, unix_ms: now.getTime() } };
}

function localTime(instant: Date, timezone: string): string | undefined {
  try {
    const format = new Intl.DateTimeFormat('en-US', { timeZone: timezone, timeZoneName: 'longOffset' });
    const name = format.formatToParts(instant).find((part) => part.type === 'timeZoneName')?.value ?? 'GMT';
    const [, sign = '+', hours = '00', minutes = '00'] = /GMT([+-])(\d\d):(\d\d)/.exec(name) ?? [];
    const offsetMs = (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000;
    return new Date(instant.getTime() + offsetMs).toISOString().replace('Z', `${sign}${hours}:${minutes}`);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
