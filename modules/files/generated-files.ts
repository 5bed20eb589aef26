/** Stores files made by a provider's own tools in an answer as files of the run. */
import { DroverError } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import type { ModelResponse } from '../../core/model.ts';
import { startDeadline } from '../../lib/deadline.ts';
import type { OpenFile } from '../../llm/provider.ts';
import type { ProcessContext } from '../process-context.ts';
import type { FileContext } from './content.ts';
import { keepForRun } from './keep-for-run.ts';

/** The event for one file. */
type GeneratedFact =
  | { type: 'file.stored'; payload: { file_id: string; provider: string; mime_type: string; size: number } }
  | { type: 'file.failed'; payload: { provider: string; error: { code: string; message: string } } };

interface OfAnswer {
  tenantId: string;
  runId: string;
  signal: AbortSignal;
}

/**
 * Fetches an answer's files one by one, within a common time limit. Files that cannot be fetched or stored are reported
 * and stay with the provider: they never fail an answer. Throws only if the run is taken away.
 */
export async function keepGeneratedFiles(
  context: FileContext & Pick<ProcessContext, 'models'>,
  of: OfAnswer,
  { provider, files = [] }: Pick<ModelResponse, 'provider' | 'files'>,
): Promise<GeneratedFact[]> {
  if (!context.fileStore || files.length === 0) return [];
  const open = context.models.filesOf(provider);
  if (!open) return [];
  const deadline = startDeadline(LIMITS.generatedFilesMs, of.signal);
  const facts: GeneratedFact[] = [];
  try {
    for (const id of files.slice(0, LIMITS.generatedFiles)) {
      // A signal per file, so that its listeners go with it.
      const signal = AbortSignal.any([deadline.signal]);
      const fact = await keepOne(context, { ...of, signal, provider }, { id, open });
      of.signal.throwIfAborted();
      if (fact) facts.push(fact);
    }
  } finally {
    deadline.clear();
  }
  const over = files.length - LIMITS.generatedFiles;
  if (over > 0) {
    const message = `${over} files more than the ${LIMITS.generatedFiles} that are kept of an answer.`;
    facts.push({ type: 'file.failed', payload: { provider, error: { code: 'too_many_files', message } } });
  }
  return facts;
}

async function keepOne(
  context: FileContext,
  of: OfAnswer & { provider: string },
  { id, open }: { id: string; open: OpenFile },
): Promise<GeneratedFact | undefined> {
  const { provider, signal } = of;
  try {
    const file = await keepForRun(context, of, { ...(await open(id, signal)), origin: 'provider' });
    if (!file) return undefined;
    const { id: file_id, mime_type, size } = file;
    return { type: 'file.stored', payload: { file_id, provider, mime_type, size } };
  } catch (error) {
    context.log.warn({ err: error, run: of.runId, provider }, 'a file of the provider is not kept');
    const code = codeOf(error, signal);
    const message = 'A file that the provider has made could not be kept.';
    return { type: 'file.failed', payload: { provider, error: { code, message } } };
  }
}

function codeOf(error: unknown, signal: AbortSignal): string {
  if (signal.aborted) return 'timeout';
  if (error instanceof DroverError) return error.code;
  return error instanceof Error && 'status' in error && typeof error.status === 'number'
    ? `http_${error.status}`
    : 'fetch_failed';
}
