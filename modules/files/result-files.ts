/** Turns large contents in a tool's result into files: ledger, log and models get their ids. */
import { Readable } from 'node:stream';
import type { FileBlock } from '../../core/content.ts';
import { DroverError } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import type { ToolOutcome } from '../../core/tool.ts';
import type { OutputPart } from '../../core/tool-output.ts';
import type { FileContext } from './content.ts';
import { keepForRun } from './keep-for-run.ts';

/** The event for one part. */
export type FileFact =
  | { type: 'file.stored'; payload: { file_id: string; tool_call_id: string; mime_type: string; size: number } }
  | { type: 'file.failed'; payload: { tool_call_id: string; error: { code: string; message: string } } };

interface OfCall {
  tenantId: string;
  runId: string;
  callId: string;
  signal: AbortSignal;
}

/** Base64 found in a result. */
interface Blob {
  data: string;
  mimeType: string;
  name: string | undefined;
}

/**
 * Replaces large blobs of MCP results (images, sound, resources) by `{file_id, mime_type, size}`, and images by files
 * for the model. Blobs that cannot be stored stay. Never throws.
 */
export async function keepResultFiles(
  context: FileContext,
  call: OfCall,
  outcome: ToolOutcome,
): Promise<{ outcome: ToolOutcome; facts: FileFact[] }> {
  if (!context.fileStore || outcome.kind !== 'succeeded' || !outcome.content) return { outcome, facts: [] };
  const facts: FileFact[] = [];
  const kept = new Map<string, FileBlock>();
  for (const blob of blobsIn(outcome.output)) {
    if (kept.has(blob.data)) continue;
    try {
      const file = await keepBlob(context, call, blob);
      if (!file) break;
      kept.set(blob.data, file);
      const { file_id, media_type: mime_type, size } = file;
      facts.push({ type: 'file.stored', payload: { file_id, tool_call_id: call.callId, mime_type, size } });
    } catch (error) {
      context.log.warn({ err: error, run: call.runId, call: call.callId }, 'a part of a result is not kept as a file');
      const code = error instanceof DroverError ? error.code : 'store_failed';
      const told = { code, message: 'A part of the result could not be kept as a file.' };
      facts.push({ type: 'file.failed', payload: { tool_call_id: call.callId, error: told } });
      break;
    }
  }
  if (kept.size === 0) return { outcome, facts };
  const content = outcome.content.map((part) => asFile(part, kept));
  const named = [...kept.values()].map(({ file_id, filename, media_type }): OutputPart => {
    return { type: 'text', text: `[kept as file ${file_id}: ${filename}, ${media_type}]` };
  });
  return {
    outcome: { ...outcome, output: withoutBlobs(outcome.output, kept), content: [...content, ...named] },
    facts,
  };
}

async function keepBlob(
  context: FileContext,
  call: OfCall,
  { data, mimeType, name }: Blob,
): Promise<FileBlock | undefined> {
  const source = Readable.from([Buffer.from(data, 'base64')]);
  const row = await keepForRun(context, call, { source, filename: name, mimeType, origin: 'tool' });
  return row && { type: 'file', file_id: row.id, media_type: row.mime_type, filename: row.filename, size: row.size };
}

/** The large blobs in MCP's form: `data` of images and sound, `blob` of resources. */
function blobsIn(output: unknown): Blob[] {
  return blocksOf(output).flatMap((block) => {
    const held = isRecord(block['resource']) ? block['resource'] : block;
    const data = held === block ? block['data'] : held['blob'];
    if (typeof data !== 'string' || data.length <= LIMITS.inlineBlobChars) return [];
    const mimeType = typeof held['mimeType'] === 'string' ? held['mimeType'] : '';
    const name = typeof held['uri'] === 'string' ? held['uri'] : undefined;
    return [{ data, mimeType, name }];
  });
}

function withoutBlobs(output: unknown, kept: ReadonlyMap<string, FileBlock>): unknown {
  const replace = (held: Record<string, unknown>, field: 'data' | 'blob') => {
    const data = held[field];
    const file = typeof data === 'string' ? kept.get(data) : undefined;
    if (!file) return held;
    const { [field]: _, ...rest } = held;
    return { ...rest, file_id: file.file_id, mime_type: file.media_type, size: file.size };
  };
  const content = blocksOf(output).map((block) =>
    isRecord(block['resource']) ? { ...block, resource: replace(block['resource'], 'blob') } : replace(block, 'data'),
  );
  return { ...(output as object), content };
}

/** Shows an image from its file; other blobs are described in words already. */
function asFile(part: OutputPart, kept: ReadonlyMap<string, FileBlock>): OutputPart {
  if (part.type !== 'image' || part.source.type !== 'base64') return part;
  return kept.get(part.source.data) ?? part;
}

function blocksOf(output: unknown): Record<string, unknown>[] {
  const content = isRecord(output) ? output['content'] : undefined;
  return Array.isArray(content) ? content.filter(isRecord) : [];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
