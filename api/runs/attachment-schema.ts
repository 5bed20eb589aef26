/** Attachments of messages. */
import { z } from 'zod';

/** Maximum per message. */
export const MOST_ATTACHMENTS = 50;

const base64 = z.strictObject({ type: z.literal('base64'), media_type: z.string().max(100), data: z.base64() });
const file_id = z.uuid().toLowerCase().describe('Of a file of the workspace.');
const filename = z.string().min(1).max(1000).optional();

/** Content, or a file's id. All but text and URLs is stored as files. */
export const attachment = z
  .union(
    [
      z.strictObject({ type: z.literal('text'), text: z.string() }),
      z.strictObject({
        type: z.literal('image'),
        source: z.union([
          base64,
          z.strictObject({ type: z.literal('url'), url: z.url({ protocol: /^https?$/ }).max(4000) }),
        ]),
      }),
      z
        .strictObject({ type: z.enum(['file', 'image', 'document']).optional(), file_id })
        .transform(({ file_id: id }) => ({ type: 'file' as const, file_id: id })),
      z
        .strictObject({ type: z.enum(['file', 'document']), source: base64, filename })
        .transform((given) => ({ ...given, type: 'file' as const })),
    ],
    { error: 'must be {type: "text", text}, {type: "image", source}, {type: "file", source, filename} or {file_id}' },
  )
  .meta({ id: 'Attachment' });
