/** Fields that transports share. */
import { z } from 'zod';
import { hasLogin } from '../../lib/has-login.ts';
import { HEADERS_NOT_TO_SET } from '../egress.ts';
import { HIDDEN } from '../redact.ts';

const isShown = (value: string) => value !== HIDDEN;
/** Why a value that answers show as hidden is not taken back. */
export const HIDDEN_MESSAGE = { message: `"${HIDDEN}" stands for a value that is not shown: send the value itself` };

/** Text that is not one of our own placeholders. */
export const shownText = (maxChars: number) => z.string().max(maxChars).refine(isShown, HIDDEN_MESSAGE);

export const endpoint = z
  .url({ protocol: /^https?$/, message: 'must be an http or https URL' })
  .max(2000)
  .refine((url) => !hasLogin(url), 'has a user name or a password: send `Authorization` in `headers`, with a secret')
  .refine((url) => !hidesParameter(url), HIDDEN_MESSAGE);

function hidesParameter(url: string): boolean {
  return URL.canParse(url) && [...new URL(url).searchParams.values()].includes(HIDDEN);
}

/** Null counts as absent. */
export const headers = z
  .record(
    z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}$/, 'is not a header name'),
    z
      .string()
      .max(8000)
      .regex(/^[\t\x20-\x7e\x80-\xff]*$/, 'has a character that headers cannot have')
      .refine(isShown, HIDDEN_MESSAGE),
  )
  .superRefine((given, context) => {
    for (const name of Object.keys(given).filter((each) => HEADERS_NOT_TO_SET.test(each)))
      context.addIssue({ code: 'custom', path: [name], message: 'cannot be set: it belongs to the connection' });
  })
  .describe('`{{secret:name}}` stands for a secret.')
  .nullable()
  .optional()
  .transform((value) => value ?? undefined);
