import assert from 'node:assert/strict';
import { createComparer } from '../../llm/compare-texts.ts';
import { waitUntil } from '../support/wait-until.ts';

const { signal } = new AbortController();
const payer = { tenantId: 't', purpose: 'example_embeddings' } as const;

/** Texts as vectors of how many of the letters a and b they have, and what was asked for. */
function counting() {
  const asked: { texts: readonly string[]; isWaitedFor: boolean }[] = [];
  let isAway = false;
  const embed = async (_: string, texts: readonly string[], { isWaitedFor = false }: { isWaitedFor?: boolean }) => {
    asked.push({ texts, isWaitedFor });
    if (isAway) throw new Error('away');
    return texts.map((text) => ['a', 'b'].map((letter) => text.split(letter).length - 1));
  };
  return { asked, embed, away: (is: boolean) => void (isAway = is) };
}

describe('Comparing texts with a question', () => {
  it('gives cosines once the vectors of the texts are there, for which nobody waits', async () => {
    const { asked, embed } = counting();
    const { compare } = createComparer(embed);
    const texts = ['aa', 'b', 'ab', ''];
    assert.equal(await compare('m', { texts, question: 'a', signal, payer }), undefined);
    await waitUntil(
      'the texts are embedded',
      async () => (await compare('m', { texts, question: 'a', signal, payer })) !== undefined,
    );
    const likeness = await compare('m', { texts, question: 'aaa', signal, payer });
    assert.deepEqual(
      likeness?.map((each) => Math.round(each * 100)),
      [100, 0, 71, 0],
    );
    const [first, ...others] = asked;
    assert.deepEqual(first, { texts, isWaitedFor: false });
    assert.ok(
      others.every((each) => each.texts.length === 1 && each.isWaitedFor),
      'the texts were embedded once',
    );
  });

  it('makes the vectors again where none could be made, and others where the texts or the model are others', async () => {
    const { asked, embed, away } = counting();
    const { compare } = createComparer(embed);
    const ask = (model: string, texts: string[]) => compare(model, { texts, question: 'a', signal, payer });
    away(true);
    assert.equal(await ask('m', ['a']), undefined);
    await waitUntil('the model was asked', () => asked.length === 1);
    away(false);
    await waitUntil('the vectors are there', async () => (await ask('m', ['a'])) !== undefined);
    assert.equal(await ask('m', ['a', 'b']), undefined);
    assert.equal(await ask('n', ['a']), undefined);
  });

  it('fails where the question has no vector, and makes none any more once it is closed', async () => {
    const { embed, away } = counting();
    const { compare } = createComparer(embed);
    const ask = () => compare('m', { texts: ['a'], question: 'b', signal, payer });
    await waitUntil('the vectors are there', async () => (await ask()) !== undefined);
    away(true);
    await assert.rejects(ask(), /away/);

    const seen: AbortSignal[] = [];
    const closed = createComparer(async (_, texts, options) => {
      seen.push(options.signal);
      return texts.map(() => [1]);
    });
    closed.close();
    assert.equal(await closed.compare('m', { texts: ['a'], question: 'b', signal, payer }), undefined);
    await waitUntil('it was told', () => seen.length === 1);
    assert.equal(seen[0]?.aborted, true);
  });
});
