/** What a client of the AI SDK posts: all its messages, the last of which counts. */
import { isUtf8 } from 'node:buffer';
import { z } from 'zod';
import { impossible } from '../../core/errors.ts';
import { PDF_TYPE } from '../../core/file-types.ts';
import { MOST_ATTACHMENTS } from '../runs/attachment-schema.ts';
import { MESSAGE_MODES, type Answerable, type GivenInput, type WaitAnswer } from '../../modules/sessions/converse.ts';
import { inputWithFiles } from './input-with-files.ts';

const part = z.looseObject({ type: z.string() });
type Part = z.output<typeof part>;

const message = z.looseObject({
  id: z.string().max(200).optional(),
  role: z.enum(['system', 'user', 'assistant']),
  parts: z.array(part),
});
type Message = z.output<typeof message>;

/** The body of `DefaultChatTransport`. */
export const uiStreamBody = z
  .strictObject({
    id: z.string().min(1).max(200).describe("The chat: a thread's id, or a name of the client's own for one."),
    messages: z.array(message).min(1).describe('The last one counts; Drover has those before it.'),
    trigger: z.enum(['submit-message', 'regenerate-message']).optional(),
    messageId: z
      .string()
      .max(200)
      .nullish()
      .describe("A message of the assistant's: the answers are in that one, or in the last one."),
    mode: z
      .enum(MESSAGE_MODES)
      .optional()
      .describe('What becomes of a message while a turn is open; `queue` unless given.'),
  })
  .meta({ id: 'UiStreamRequest' });

/** The client's last message, or the earlier one that it names as the one with its answers. */
function sentOf({ messages, messageId }: z.output<typeof uiStreamBody>): { last: Message | undefined; path: string } {
  const named = messages.findLastIndex(({ id, role }) => id !== undefined && id === messageId && role === 'assistant');
  const index = named === -1 ? messages.length - 1 : named;
  return { last: messages[index], path: `messages.${index}` };
}

/**
 * A user's message with the client's id for it; undefined if the last message is the assistant's, with answers. Throws
 * 422.
 */
export function inputOf(
  body: z.output<typeof uiStreamBody>,
): { id: string | undefined; input: GivenInput } | undefined {
  const { trigger } = body;
  if (trigger === 'regenerate-message') {
    throw refuse('trigger', 'A turn that has happened is not done again: send another message.');
  }
  const { last, path } = sentOf(body);
  if (last?.role !== 'user') return undefined;
  const parts = last.parts.map((each, index) => ({ part: each, path: `${path}.parts.${index}` }));
  const text = parts.flatMap((each) => (each.part.type === 'text' ? [wordsOf(each)] : [])).join('\n');
  if (text === '') throw refuse(`${path}.parts`, 'The last message has no text.');
  const files = parts.filter((each) => each.part.type === 'file');
  const { id } = last;
  if (files.length === 0) return { id, input: { message: text } };
  if (files.length > MOST_ATTACHMENTS) {
    throw refuse(`${path}.parts`, `A message has at most ${MOST_ATTACHMENTS} files.`);
  }
  const attached = files.map((each) => ({ attachment: toAttachment(each), path: `body.${each.path}` }));
  return { id, input: inputWithFiles(text, attached) };
}

/** A part, and its path in the body. */
interface Placed {
  part: Part;
  path: string;
}

function wordsOf({ part: { text }, path }: Placed): string {
  if (typeof text === 'string') return text;
  throw refuse(path, 'A text part of the last message has no text.');
}

/**
 * Answers to open requests, of the message that the client names and of its last one: after a stream that broke off, the SDK
 * may name an older message.
 */
export function answersOf(body: z.output<typeof uiStreamBody>, open: readonly Answerable[]): WaitAnswer[] {
  const parts = [sentOf(body).last, body.messages.at(-1)].flatMap((each) => each?.parts ?? []);
  return open.flatMap((wait) => {
    const given = parts.map((each) => answerOf(each, wait)).find((answer) => answer !== undefined);
    return given ? [given] : [];
  });
}

/**
 * The message of which the last step has answers, to open requests or to earlier ones: the last one, or the one that the client
 * names.
 */
export function answeredMessage(body: z.output<typeof uiStreamBody>): { id: string | undefined } | undefined {
  const given = [body.messages.at(-1), sentOf(body).last].find(
    (each) => each?.role === 'assistant' && hasAnswers(each),
  );
  return given && { id: given.id };
}

function hasAnswers({ parts }: Message): boolean {
  return parts.slice(parts.findLastIndex(({ type }) => type === 'step-start') + 1).some(isAnswer);
}

function isAnswer({ state, providerExecuted }: Part): boolean {
  if (state === 'approval-responded') return true;
  return providerExecuted !== true && (state === 'output-available' || state === 'output-error');
}

const approval = z.looseObject({ id: z.string(), approved: z.boolean(), reason: z.string().max(5000).nullish() });

function answerOf(given: Part, { id: waitId, type, tool_use_id }: Answerable): WaitAnswer | undefined {
  const { state, toolCallId, output, errorText } = given;
  if (type === 'approval') {
    const { data } = approval.safeParse(given['approval']);
    if (state !== 'approval-responded' || data?.id !== waitId) return undefined;
    const reason = data.reason ?? undefined;
    return { waitId, kind: 'decision', decided: { decision: data.approved ? 'approve' : 'deny', reason } };
  }
  const isError = state === 'output-error';
  if (toolCallId !== waitId || (state !== 'output-available' && !isError)) return undefined;
  const content = isError ? errorText : output;
  if (type === 'user') return { waitId, kind: 'answer', message: textOf(content) };
  if (type !== 'tool_results' || tool_use_id === null) return undefined;
  return { waitId, kind: 'tool_results', results: [{ tool_use_id, content, ...(isError && { is_error: true }) }] };
}

function textOf(content: unknown): string {
  return typeof content === 'string' ? content : (JSON.stringify(content) ?? '');
}

function toAttachment({ part: file, path }: Placed): NonNullable<GivenInput['attachments']>[number] {
  const { url, mediaType, filename } = file;
  const link = String(url);
  const media = String(mediaType);
  const data = /^data:[^,]*;base64,([A-Za-z0-9+/=]*)$/.exec(link)?.[1];
  if (media.startsWith('image/') && /^https?:\/\//.test(link))
    return { type: 'image', source: { type: 'url', url: link } };
  if (media.startsWith('text/') && data !== undefined) {
    return { type: 'text', text: decodeText(Buffer.from(data, 'base64'), path) };
  }
  const isPdf = media.toLowerCase() === PDF_TYPE;
  if ((isPdf || media.startsWith('image/')) && data !== undefined) {
    const named = typeof filename === 'string' && { filename };
    return { type: 'file', source: { type: 'base64', media_type: isPdf ? PDF_TYPE : media, data }, ...named };
  }
  throw refuse(path, 'A file must be an image, or a PDF or a text as a data URL.');
}

/** Models are shown texts as UTF-8: in another encoding they would not see what it says. */
function decodeText(bytes: Buffer, path: string): string {
  if (!isUtf8(bytes)) throw refuse(path, 'The text of a file is not UTF-8.');
  return new TextDecoder().decode(bytes);
}

function refuse(field: string, text: string) {
  return impossible(text, [{ path: `body.${field}`, message: text }]);
}
