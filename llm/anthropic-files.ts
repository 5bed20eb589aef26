/** Files that Claude's code has made: their ids in an answer, and their contents over the Files API. */
import { Readable } from 'node:stream';
import { Anthropic } from '@anthropic-ai/sdk';
import type { AssistantBlock } from '../core/content.ts';
import { LIMITS } from '../core/limits.ts';
import type { Credential, OpenFile } from './provider.ts';

const BETA = 'files-api-2025-04-14';
const FILE_ID = /^file_\w{1,200}$/;

/** Ids of files that code execution results name (`code_execution_output`, `bash_code_execution_output`), each once. */
export function filesMadeIn(content: readonly AssistantBlock[]): string[] {
  const results = content.filter(({ type }) => /^(?:bash_)?code_execution_tool_result$/.test(type));
  const ids = results.flatMap((block) => {
    const { content: result } = block as { content?: { content?: unknown } | null };
    const outputs = Array.isArray(result?.content) ? (result.content as unknown[]) : [];
    return outputs.map((output) => (output as { file_id?: unknown } | null)?.file_id);
  });
  return [...new Set(ids.filter((id): id is string => typeof id === 'string' && FILE_ID.test(id)))];
}

/** Opens files of the credential's account. No redirect is followed, so the key goes to the provider's address alone. */
export function anthropicFiles({ apiKey, baseUrl = 'https://api.anthropic.com' }: Credential): OpenFile {
  const client = new Anthropic({
    apiKey,
    authToken: null,
    baseURL: baseUrl,
    maxRetries: 0,
    timeout: LIMITS.generatedFilesMs,
    fetchOptions: { redirect: 'error' },
    logLevel: 'off',
  });
  return async (id, signal) => {
    const betas = { betas: [BETA] };
    const { filename, mime_type: mimeType } = await client.beta.files.retrieveMetadata(id, betas, { signal });
    const { body } = await client.beta.files.download(id, betas, { signal });
    return { source: body ? Readable.fromWeb(body) : Readable.from([]), filename, mimeType };
  };
}
