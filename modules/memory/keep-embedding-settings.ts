/** Says how this process embeds for as long as it lives, so that others leave alone what it has made, whether or not it makes anything now. */
import { LIMITS } from '../../core/limits.ts';
import { noteEmbeddingSettings } from '../../db/memory-models.ts';
import type { MemoryContext } from './memory-context.ts';

interface KeptSettings {
  /** Resolves when what is being noted is. */
  stop: () => Promise<void>;
}

/** Says so at once, and again before others would think that the process has gone. A database that is away is asked again the next time. */
export function keepEmbeddingSettings(
  { db, embeddings: { settings }, log }: MemoryContext,
  everyMs: number = LIMITS.embeddingSettingsMs / 3,
): KeptSettings {
  const note = async (): Promise<void> => {
    await noteEmbeddingSettings(db, settings, LIMITS.embeddingSettingsMs).catch((error: unknown) =>
      log.warn({ err: error }, 'how this process embeds could not be noted'),
    );
  };
  let last = note();
  const timer = setInterval(() => {
    last = note();
  }, everyMs);
  return {
    async stop() {
      clearInterval(timer);
      await last;
    },
  };
}
