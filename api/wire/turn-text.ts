/** Texts of a turn's answers: in pieces while they are written, whole once logged. */
import type { StoredBlock } from '../../core/content.ts';
import type { Change, TextPart, TurnView } from './turn-view.ts';

interface Piece {
  kind: TextPart['kind'];
  text: string;
  step: number;
  /** Characters of the answer before it; undefined if unknown. */
  at: number | undefined;
}

/** Adds a piece if it fits what is there; else drops it, since the log brings the whole text. */
export function growText(view: TurnView, { kind, text, step, at }: Piece): Change[] {
  const written = writtenIn(view, step);
  const length = lengthOfTexts(view, step);
  if (at === 0 && length > 0) return [...closeText(view, { isVoid: true }), ...open(view, { kind, step, text })];
  if (at !== length || text === '') return [];
  const last = written.at(-1);
  if (last?.kind === kind && last.isOpen) return [grow(last, text)];
  return [...closeText(view, { isVoid: false }), ...open(view, { kind, step, text })];
}

/** Completes a step's texts from the log: adds what is missing, or replaces texts that differ. */
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

/** Adds what the log has of an answer that its user has stopped, unless clients have more: reasoning is not in the log. */
export function showPartial(view: TurnView, { step, text }: { step: number; text: string }): Change[] {
  const texts = writtenIn(view, step).filter(({ kind }) => kind === 'text');
  const shown = texts.map((part) => part.text).join('');
  if (step <= view.finishedStep || !text.startsWith(shown)) return [];
  return growText(view, { kind: 'text', text: text.slice(shown.length), step, at: lengthOfTexts(view, step) });
}

/** Closes open texts; void ones come from an unfinished attempt. */
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
  // Void texts do not count, so that later clients, who do not see them, get the same ids.
  const place = writtenIn(view, step).length;
  const part: TextPart = { kind, id: `${step}.${place}`, step, text: '', isOpen: true, isVoid: false };
  view.parts.push(part);
  return [{ kind: 'text_opened', part }, grow(part, text)];
}

function grow(part: TextPart, text: string): Change {
  part.text += text;
  return { kind: 'text_grew', part, text };
}

/** In characters, for the step's valid attempt. */
export function lengthOfTexts(view: TurnView, step: number): number {
  return writtenIn(view, step).reduce((sum, part) => sum + part.text.length, 0);
}

/** Texts of the step's valid attempt. */
function writtenIn(view: TurnView, step: number): TextPart[] {
  return view.parts.filter((part): part is TextPart => part.kind !== 'call' && part.step === step && !part.isVoid);
}

/** Joins neighbours of the same kind. */
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
