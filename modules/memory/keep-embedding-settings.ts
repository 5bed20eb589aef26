/**
 * Announces this process's embedding settings as long as it lives, so that others do not replace its vectors, even
 * while it makes none.
 */
import { LIMITS } from '../../core/limits.ts';
import { noteLength } from '../../db/memory-index.ts';
import { noteEmbeddingSettings } from '../../db/memory-models.ts';
import type { MemoryContext } from './memory-context.ts';

interface KeptSettings {
  /** Stops, and waits for an announcement under way. */
  stop: () => Promise<void>;
}

/** Announces at once, and again before the last announcement expires. A failure is logged and retried the next time. */
export function keepEmbeddingSettings(
  { db, embeddings: { settings, takeLengths }, log }: MemoryContext,
  everyMs: number = LIMITS.embeddingSettingsMs / 3,
): KeptSettings {
  const note = async (): Promise<void> => {
    try {
      await noteEmbeddingSettings(db, settings, LIMITS.embeddingSettingsMs);
      // Those of questions, too, by which a change is known to last where nothing new is remembered.
      for (const given of takeLengths()) await noteLength(db, { ...given, withinMs: LIMITS.embeddingSettingsMs });
    } catch (error) {
      log.warn({ err: error }, 'how this process embeds could not be noted');
    }
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
