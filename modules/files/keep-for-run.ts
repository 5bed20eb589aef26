/** Stores a content that a run has produced as its file. */
import type { Readable } from 'node:stream';
import { keepFile, discard, writeContent } from './store-file.ts';
import { noteUses, readRunOwner, type FileOrigin, type FileRow } from '../../db/files.ts';
import type { FileContext } from './content.ts';

interface MadeFile {
  source: Readable;
  filename: string | undefined;
  mimeType: string | undefined;
  origin: Exclude<FileOrigin, 'user'>;
}

/** Returns undefined if the run is erased. Always closes the source. Throws as `writeContent` and `keepFile` do. */
export async function keepForRun(
  context: FileContext,
  { tenantId, runId, signal }: { tenantId: string; runId: string; signal: AbortSignal },
  { source, ...made }: MadeFile,
): Promise<FileRow | undefined> {
  const content = await writeContent(context, tenantId, { source, signal }).finally(() => source.destroy());
  try {
    return await context.db.withTenant(tenantId, async (tx) => {
      // Locks the run: one being erased gets no more files.
      const run = await readRunOwner(tx, runId);
      if (!run) return undefined;
      const of = { workspaceId: run.workspace_id, threadId: run.thread_id, runId };
      const file = await keepFile(tx, content, { ...of, ...made, trust: 'untrusted' });
      await noteUses(tx, { tenantId, runId, fileIds: [file.id] });
      return file;
    });
  } finally {
    await discard(context, content);
  }
}
