/** Tools whose calls are answered by time or another system while the run waits as a row (modules/waits/open-waits.ts). */
import type { ToolOutcome } from '../../core/tool.ts';
import { LIMITS } from '../../core/limits.ts';
import { READS, toolError, type Builtin } from './builtin-type.ts';

const name = {
  type: 'string',
  minLength: 1,
  maxLength: 200,
  description: 'Tells several waits apart; only a signal of the same name answers.',
};
const seconds = { type: 'number', exclusiveMinimum: 0, maximum: LIMITS.waitSeconds };

export const SLEEP: Builtin = {
  name: 'sleep',
  display_name: 'Sleep',
  description:
    'Waits, for a number of seconds or until a point in time, before you go on. Use it when something will only be there later; it costs nothing meanwhile.',
  input_schema: {
    type: 'object',
    properties: {
      seconds,
      until: { type: 'string', maxLength: 40, description: 'RFC 3339, such as "2026-05-04T09:00:00Z".' },
      name,
    },
    oneOf: [{ required: ['seconds'] }, { required: ['until'] }],
    additionalProperties: false,
  },
  output_schema: {
    type: 'object',
    properties: { until: { type: 'string', description: 'The time that was waited for, unless a signal came first.' } },
  },
  ...READS,
};

export const WAIT_FOR_WEBHOOK: Builtin = {
  name: 'wait_for_webhook',
  display_name: 'Wait for a webhook',
  description:
    'Waits until another system calls back over HTTP, and gives what it sent. Use it after something was started elsewhere that reports its end.',
  input_schema: {
    type: 'object',
    properties: { name, timeout_seconds: { ...seconds, description: 'A day if left out.' } },
    additionalProperties: false,
  },
  output_schema: { description: 'The JSON that was sent.' },
  ...READS,
};

/** Called only outside a run, where nothing can wait; within one, a signal answers. */
export async function waitForNothing(): Promise<ToolOutcome> {
  return toolError('no-run', 'Only a run can wait.');
}
