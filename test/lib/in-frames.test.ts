import assert from 'node:assert/strict';
import { inFrames } from '../../lib/in-frames.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('Pieces in frames', () => {
  const collect = (frameMs: number) => {
    const sent: string[] = [];
    const atMs: number[] = [];
    const send = (piece: string) => {
      sent.push(piece);
      atMs.push(performance.now());
    };
    // Capital letters go with each other, and so do all others.
    const isCapital = (text: string) => text.toUpperCase() === text;
    const join = (first: string, second: string) =>
      isCapital(first) === isCapital(second) ? first + second : undefined;
    return { sent, atMs, frames: inFrames({ frameMs, join, send }) };
  };

  it('are sent at once where none was before, and then together, when the frame is over', async () => {
    const { sent, atMs, frames } = collect(16);
    const beganMs = performance.now();
    for (const letter of 'abcdef') frames.push(letter);
    assert.deepEqual(sent, ['a']);
    await waitUntil('the rest is sent', () => sent.length === 2);
    assert.deepEqual(sent, ['a', 'bcdef']);
    const tookMs = (atMs[1] ?? 0) - beganMs;
    assert.ok(tookMs >= 15, `${tookMs} ms`);
  });

  it('are sent apart where they do not go together, in order, and all that is held with a flush', () => {
    const { sent, frames } = collect(60_000);
    for (const letter of 'abCDe') frames.push(letter);
    assert.deepEqual(sent, ['a', 'b', 'CD']);
    frames.flush();
    frames.flush();
    assert.deepEqual(sent, ['a', 'b', 'CD', 'e']);
  });
});
