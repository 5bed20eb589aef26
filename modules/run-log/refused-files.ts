/** Leaves out images and files for which a provider has refused a request: it would refuse all that follow, too. */
import type { FileBlock, ImageBlock, TextBlock } from '../../core/content.ts';
import type { RefusedFiles } from '../../core/refused-files.ts';
import type { MessageRow } from '../../db/claim-run.ts';
import { noFile, noImage } from '../../llm/messages.ts';

/** The messages with words in place of these images and files. What is stored stays as it is: its hash vouches for it. */
export function withoutRefused(
  rows: readonly MessageRow[],
  refused: readonly RefusedFiles[] | undefined,
): readonly MessageRow[] {
  if (!refused || refused.length === 0) return rows;
  const isRefused = ({ ordinal }: MessageRow) => refused.some(({ from, until }) => ordinal >= from && ordinal < until);
  return rows.map((row) => (isRefused(row) && holdsFiles(row) ? inWords(row) : row));
}

/** Whether a message, or a result that it refers to, has an image or a file. */
export function holdsFiles({ content, outcomes }: MessageRow): boolean {
  return content.some(isFile) || Object.values(outcomes ?? {}).some((outcome) => outcome.content?.some(isFile));
}

/** By row, so that each is rendered once. */
const inWordsOf = new WeakMap<MessageRow, MessageRow>();

function inWords(row: MessageRow): MessageRow {
  const known = inWordsOf.get(row);
  if (known) return known;
  const outcomes = Object.entries(row.outcomes ?? {}).map(([id, outcome]) => [
    id,
    outcome.content ? { ...outcome, content: outcome.content.map(wordsFor) } : outcome,
  ]);
  const content = row.content.map(wordsFor);
  const made = { ...row, content, ...(row.outcomes && { outcomes: Object.fromEntries(outcomes) }) };
  inWordsOf.set(row, made);
  return made;
}

const WHY = 'a model has refused a request for an image or a file';

function wordsFor<Block extends { type: string }>(block: Block): Block | TextBlock {
  if (!isFile(block)) return block;
  return { type: 'text', text: block.type === 'file' ? noFile(block, WHY) : noImage(block, WHY) };
}

function isFile(block: { type: string }): block is ImageBlock | FileBlock {
  return block.type === 'image' || block.type === 'file';
}
