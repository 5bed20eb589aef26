/** Tells whoever has sent work that nobody does it, where the command has opened the data directory for itself. */
import type { Client } from './client.ts';

/** Says it on stderr, after what the command prints. */
export function sayIfIdle({ isIdle }: Client): void {
  if (!isIdle) return;
  const how = '`drover start` starts one; what was sent waits for it.';
  process.stderr.write(`drover: No service runs that would do the work. ${how}\n`);
}
