/** Reads the requests of ACP clients. */
import { RequestError, type ContentBlock } from '@agentclientprotocol/sdk';
import { z } from 'zod';
import { cleanJson, noteReplaced } from '../../core/content.ts';
import { DroverError } from '../../core/errors.ts';
import { PDF_TYPE } from '../../core/file-types.ts';
import { MESSAGE_MODES, type GivenInput, type MessageMode } from '../../modules/sessions/converse.ts';
import { MOST_ATTACHMENTS } from '../runs/attachment-schema.ts';
import { fromSessionSeq, type SessionPosition } from '../../core/session-position.ts';
import { inputWithFiles } from './input-with-files.ts';

const meta = z.looseObject({
  drover: z
    .strictObject({
      after: z.int().min(0).optional(),
      id: z.string().min(1).max(200).optional(),
      mode: z.enum(MESSAGE_MODES).optional(),
    })
    .optional(),
});

/** A request's `_meta.drover`. Throws -32602 for unknown content. */
export function readMeta({ _meta: given }: { _meta?: unknown }): {
  after: SessionPosition | undefined;
  id: string | undefined;
  mode: MessageMode | undefined;
} {
  const { data, error } = meta.safeParse(given ?? {});
  if (!data) throw RequestError.invalidParams({ errors: error.issues }, `_meta.${z.prettifyError(error)}`);
  const { after, id, mode } = data.drover ?? {};
  return { after: after === undefined ? undefined : fromSessionSeq(after), id, mode };
}

/** Throws -32602 for MCP servers: agents use tools that are registered with Drover. */
export function refuseServers({ mcpServers = [] }: { mcpServers?: readonly unknown[] | null }): void {
  if (mcpServers && mcpServers.length > 0) {
    throw RequestError.invalidParams(undefined, 'mcpServers must be empty: tools are registered with Drover');
  }
}

/** Converts a prompt to a turn's input, with text made storable. Throws -32602. */
export function inputOf(prompt: readonly ContentBlock[]): GivenInput {
  const input = wordsOf(prompt);
  return { ...cleanJson(input), ...noteReplaced(input) };
}

function wordsOf(prompt: readonly ContentBlock[]): GivenInput {
  const texts = prompt.flatMap((block) => {
    if (block.type === 'text') return [block.text];
    return block.type === 'resource_link' ? [`[${block.title ?? block.name}](${block.uri})`] : [];
  });
  const message = texts.join('\n');
  if (message.trim() === '') throw RequestError.invalidParams(undefined, 'the prompt has no text');
  const attached = prompt.flatMap((block, index) =>
    attachmentOf(block).map((attachment) => ({ attachment, path: `prompt.${index}` })),
  );
  if (attached.length === 0) return { message };
  if (attached.length > MOST_ATTACHMENTS) {
    throw RequestError.invalidParams(undefined, `a prompt has at most ${MOST_ATTACHMENTS} images and resources`);
  }
  return inputWithFiles(message, attached);
}

function attachmentOf(block: ContentBlock): NonNullable<GivenInput['attachments']>[number][] {
  switch (block.type) {
    case 'text':
    case 'resource_link':
      return [];
    case 'resource': {
      const { resource } = block;
      if ('text' in resource) return [{ type: 'text', text: resource.text }];
      if (resource.mimeType?.toLowerCase() !== PDF_TYPE)
        throw RequestError.invalidParams(undefined, 'a resource in a prompt must be text or a PDF');
      const source = { type: 'base64' as const, media_type: PDF_TYPE, data: resource.blob };
      return [{ type: 'file', source, filename: resource.uri }];
    }
    case 'image':
      return [{ type: 'image', source: { type: 'base64', media_type: block.mimeType, data: block.data } }];
    default:
      throw RequestError.invalidParams(undefined, `a prompt takes no ${block.type}`);
  }
}

/** Converts an error to JSON-RPC's: with its message if it is a `DroverError`, any other without. */
export function toRequestError(error: unknown): RequestError {
  if (error instanceof RequestError) return error;
  if (!(error instanceof DroverError)) return RequestError.internalError(undefined, 'something went wrong');
  const { status, code, message, errors, extra } = error;
  const data = { ...extra, status, code, ...(errors && { errors }) };
  return new RequestError(CODES[status] ?? (status >= 500 ? -32603 : -32600), message, data);
}

const CODES: Record<number, number> = { 400: -32602, 404: -32002, 422: -32602 };
