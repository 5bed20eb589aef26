/** The output of a tool as stored: complete, and separately the version that models get. */
import { cleanText, isDeeperThan, type FileBlock, type ImageBlock, type TextBlock } from './content.ts';
import { canonicalJson } from './canonical-json.ts';
import { LIMITS } from './limits.ts';

/** A part of the version for models. */
export type OutputPart = TextBlock | ImageBlock | FileBlock;

/** An output as the columns of its ledger row. */
export interface OutputColumns {
  output: unknown;
  /** Null if the model gets the output unchanged. */
  model_output: OutputPart[] | null;
  output_bytes: number;
}

/** The columns for an output; `parts`: what the model gets, if not the output itself. */
export function outputColumns(output: unknown, parts?: readonly OutputPart[]): OutputColumns {
  const output_bytes = bytesOf(output);
  if (parts) return { output, model_output: cutParts(parts), output_bytes };
  if (output_bytes <= LIMITS.toolOutputForModelBytes) return { output, model_output: null, output_bytes };
  return { output, model_output: [{ type: 'text', text: cutText(textOfOutput(output)) }], output_bytes };
}

/** The columns for a failed call: its message, and the tool's answer if that says more. */
export function failureColumns(message: string, answer?: unknown): OutputColumns {
  if (answer === undefined || answer === null) return outputColumns(message);
  const text = textOfOutput(answer);
  if (message.includes(text) || message.includes(JSON.stringify(answer))) return outputColumns(message);
  return outputColumns(answer, [
    { type: 'text', text: message },
    { type: 'text', text },
  ]);
}

/** Size of an output as stored: text as it is, everything else as JSON. */
export function bytesOf(output: unknown): number {
  return Buffer.byteLength(typeof output === 'string' ? output : JSON.stringify(output));
}

/** Text as it is, other JSON canonical. Older builds stored values nested too deeply to be traversed. */
export function textOfOutput(output: unknown): string {
  if (typeof output === 'string') return output;
  return isDeeperThan(output, LIMITS.toolOutputDepth)
    ? '[an output that is nested too deeply to be shown]'
    : canonicalJson(output);
}

/** Cuts text to what models get, with a note. */
export function cutText(text: string, maxBytes: number = LIMITS.toolOutputForModelBytes): string {
  if (text.length <= maxBytes / 4) return text;
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  const kept = new TextDecoder().decode(bytes.subarray(0, maxBytes)).replace(/\uFFFD$/, '');
  return `${kept}\n[cut: ${bytes.length} bytes in all, the first ${maxBytes} shown]`;
}

/** Cuts parts to what fits, in order: text is shortened, and images that do not fit are replaced by a note. */
function cutParts(parts: readonly OutputPart[]): OutputPart[] {
  let left: number = LIMITS.toolOutputForModelBytes;
  return parts.map((part) => {
    // It does not contain the file's content.
    if (part.type === 'file') return part;
    const shown = part.type === 'text' ? { ...part, text: cutText(cleanText(part.text), Math.max(0, left)) } : part;
    const bytes = shown.type === 'text' ? Buffer.byteLength(shown.text) : JSON.stringify(shown.source).length;
    if (shown.type === 'image' && bytes > left) return { type: 'text', text: `[image of ${bytes} bytes left out]` };
    left -= bytes;
    return shown;
  });
}
