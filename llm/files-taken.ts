import { LIMITS } from '../core/limits.ts';
import { OFFLINE } from './model-name.ts';
import type { FilesTaken } from './provider.ts';
import { PROVIDERS } from './providers.ts';

/** The largest image and PDF that a model accepts, in bytes; 0: none. The offline planner ignores files, so it accepts all. */
export function filesTakenBy({ provider, model }: { provider: string; model: string }): FilesTaken {
  if (provider === OFFLINE) return { imageBytes: LIMITS.attachedBytes, pdfBytes: LIMITS.attachedBytes };
  const found = PROVIDERS.find(({ name }) => name === provider)?.filesTaken?.(model);
  return found ?? { imageBytes: 0, pdfBytes: 0 };
}
