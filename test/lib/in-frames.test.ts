import assert from 'node:assert/strict';
import { inFrames } from '../../lib/in-frames.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('Pieces in frames', () => {
  const collect = (frameMs: number) => {
    const sent: string[] = [];
    const send = (piece: string) => void sent.push(piece);
    // Capital letters go with each other, and so do all others.
    const isCapital = (text: string) => text.toUpperCase() === text;
    const join = (first: string, second: string) =>
      isCapital(first) === isCapital(second) ? first + second : undefined;
    return { sent, frames: inFrames({ frameMs, join, send }) };
  };

  it('are sent at once where none was before, and then together, when the frame is over', async () => {
    const { sent, frames } = collect(16);
    for (const letter of 'abcdef') frames.push(letter);
    assert.deepEqual(sent, ['a']);
    await waitUntil('the rest is sent', () => sent.length === 2);
    assert.deepEqual(sent, ['a', 'bcdef']);
  });

  it('are held for as long as the frame lasts, sent apart where they do not go together, in order, and all with a flush', () => {
    const { sent, frames } = collect(60_000);
    for (const letter of 'abCDe') frames.push(letter);
    assert.deepEqual(sent, ['a', 'b', 'CD']);
    frames.flush();
    frames.flush();
    assert.deepEqual(sent, ['a', 'b', 'CD', 'e']);
  });
});
