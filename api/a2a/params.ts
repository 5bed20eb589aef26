/**
 * The form of A2A's params. The SDK converts values of other types arbitrarily, and fails on some. Fields that the protocol
 * does not know are ignored, as it asks for (section 5.7).
 */
import { z } from 'zod';
import { badRequest } from '../../core/errors.ts';

const text = z.string().nullish();
const texts = z.array(z.string()).nullish();
const data = z.looseObject({}).nullish();
const flag = z.boolean().nullish();
const CONTENTS = ['text', 'raw', 'url', 'data'] as const;
const length = z.int().min(0).nullish();

const part = z
  .looseObject({ text, url: text, raw: text, metadata: data })
  .refine((given) => CONTENTS.filter((kind) => (given[kind] ?? null) !== null).length === 1, {
    error: 'must have exactly one of text, raw, url and data',
  });
/** The name, or its number in protocol buffers. */
const USER = ['ROLE_USER', 1] as const;
const message = z
  .looseObject({
    messageId: text,
    message_id: text,
    role: z.literal(USER, 'must be ROLE_USER: whoever sends a message speaks as the user'),
    taskId: text,
    contextId: text,
    parts: z.array(part).nullish(),
    metadata: data,
    extensions: texts,
    referenceTaskIds: texts,
    reference_task_ids: texts,
  })
  .refine(({ messageId, message_id }) => (messageId ?? message_id ?? '') !== '', {
    path: ['messageId'],
    error: 'is required: by it a message that is sent again is known',
  });
const pushFields = {
  id: text,
  url: text,
  token: text,
  authentication: z.looseObject({ scheme: text, credentials: text }).nullish(),
};
const push = z.looseObject(pushFields).nullish();
/** Names may have either form of protocol buffers' JSON. */
const configuration = z.looseObject({
  acceptedOutputModes: texts,
  accepted_output_modes: texts,
  historyLength: length,
  history_length: length,
  returnImmediately: flag,
  return_immediately: flag,
  taskPushNotificationConfig: push,
  task_push_notification_config: push,
});

const params = z.looseObject({
  ...pushFields,
  taskId: text,
  contextId: text,
  pageToken: text,
  historyLength: length,
  history_length: length,
  includeArtifacts: flag,
  metadata: data,
  message: message.nullish(),
  configuration: configuration.nullish(),
});

/** Throws 400 with the field's name. Absent params are left to the SDK. */
export function checkParams(given: unknown): void {
  if (given === undefined || given === null) return;
  const [issue] = params.safeParse(given).error?.issues ?? [];
  if (issue) throw badRequest(`${['params', ...issue.path].join('.')}: ${issue.message}`);
}
