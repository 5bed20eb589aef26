/** Texts of a turn's answers: piece by piece while they are written, and whole once they are in the log. */
import type { StoredBlock } from '../../core/content.ts';
import type { Change, TextPart, TurnView } from './turn-view.ts';

interface Piece {
  kind: TextPart['kind'];
  text: string;
  step: number;
  /** Characters of the answer before it; undefined where the sender does not say. */
  at: number | undefined;
}

/** Adds a piece where it follows what is there. One that does not is left out: the log will have it all. */
export function growText(view: TurnView, { kind, text, step, at }: Piece): Change[] {
  const written = writtenIn(view, step);
  const length = lengthOfTexts(view, step);
  if (at === 0 && length > 0) return [...closeText(view, { isVoid: true }), ...open(view, { kind, step, text })];
  if (at !== length || text === '') return [];
  const last = written.at(-1);
  if (last?.kind === kind && last.isOpen) return [grow(last, text)];
  return [...closeText(view, { isVoid: false }), ...open(view, { kind, step, text })];
}

/** The answer of a step as the log has it: what is missing of what was shown, or, where that is another one, all of it. */
export function finishStep(
  view: TurnView,
  { step, content }: { step: number; content: readonly StoredBlock[] },
): Change[] {
  const whole = textsOf(content);
  const shown = writtenIn(view, step);
  const isBeginning = shown.every(({ kind, text }, place) => {
    const final = whole[place];
    if (final?.kind !== kind) return false;
    return place === shown.length - 1 ? final.text.startsWith(text) : final.text === text;
  });
  const changes = isBeginning ? [] : closeText(view, { isVoid: true });
  const rest = isBeginning ? shown : [];
  whole.forEach(({ kind, text }, place) => {
    const part = rest[place];
    if (part && part.text.length < text.length) changes.push(grow(part, text.slice(part.text.length)));
    if (part) changes.push(...(part.isOpen ? close(part, false) : settled(part)));
    else changes.push(...open(view, { kind, step, text }), ...closeText(view, { isVoid: false }));
  });
  return changes;
}

/** Closes what is open; a void one was said by an attempt that did not come to its end. */
export function closeText(view: TurnView, { isVoid }: { isVoid: boolean }): Change[] {
  const unfinished = view.parts.filter((part): part is TextPart => part.kind !== 'call' && part.isOpen);
  const step = unfinished.at(-1)?.step;
  const others = isVoid && step !== undefined ? writtenIn(view, step).filter(({ isOpen }) => !isOpen) : [];
  for (const part of others) part.isVoid = true;
  return [...others.flatMap(settled), ...unfinished.flatMap((part) => close(part, isVoid))];
}

function close(part: TextPart, isVoid: boolean): Change[] {
  if (!part.isOpen) return [];
  part.isOpen = false;
  part.isVoid ||= isVoid;
  return [{ kind: 'text_closed', part }];
}

function settled(part: TextPart): Change[] {
  return [{ kind: 'text_settled', part }];
}

function open(view: TurnView, { kind, step, text }: { kind: TextPart['kind']; step: number; text: string }): Change[] {
  // Void ones do not count: whoever comes later, and does not see them, has the same ids.
  const place = writtenIn(view, step).length;
  const part: TextPart = { kind, id: `${step}.${place}`, step, text: '', isOpen: true, isVoid: false };
  view.parts.push(part);
  return [{ kind: 'text_opened', part }, grow(part, text)];
}

function grow(part: TextPart, text: string): Change {
  part.text += text;
  return { kind: 'text_grew', part, text };
}

/** In characters, of the step's attempt that counts. */
export function lengthOfTexts(view: TurnView, step: number): number {
  return writtenIn(view, step).reduce((sum, part) => sum + part.text.length, 0);
}

/** Texts of the step's attempt that counts. */
function writtenIn(view: TurnView, step: number): TextPart[] {
  return view.parts.filter((part): part is TextPart => part.kind !== 'call' && part.step === step && !part.isVoid);
}

/** Neighbours of one kind are one text. */
function textsOf(content: readonly StoredBlock[]): { kind: TextPart['kind']; text: string }[] {
  const texts: { kind: TextPart['kind']; text: string }[] = [];
  for (const block of content) {
    const kind = block.type === 'text' ? 'text' : 'reasoning';
    const text = block.type === 'text' ? block.text : block.type === 'thinking' ? block.thinking : '';
    const last = texts.at(-1);
    if (text === '') continue;
    if (last?.kind === kind) last.text += text;
    else texts.push({ kind, text });
  }
  return texts;
}
