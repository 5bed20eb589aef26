import assert from 'node:assert/strict';
import { createEmbeddings } from '../../llm/embeddings.ts';
import { forNobody, unpaid } from '../support/unpaid-embeddings.ts';
import { openOfflineEmbeddings } from '../../llm/offline-embeddings.ts';

describe('the embeddings that come with Drover', function () {
  const { signal } = new AbortController();
  const long = (n: number) => `Entry ${n}: ${'what was said about trains and budgets, '.repeat(30)}`;

  it('answer whoever waits before an import goes on', async () => {
    const offline = openOfflineEmbeddings();
    try {
      await offline.embed(['warm'], { signal });
      const ended: string[] = [];
      const patient = Array.from({ length: 30 }, (_, n) => long(n));
      const imported = offline.embed(patient, { signal }).then(() => ended.push('import'));
      const behind = offline.embed(['behind the import'], { signal }).then(() => ended.push('behind'));
      const asked = offline.embed(['Who waits?'], { signal, isWaitedFor: true }).then(() => ended.push('question'));
      await Promise.all([imported, behind, asked]);
      assert.deepEqual(ended, ['question', 'import', 'behind']);
    } finally {
      await offline.close();
    }
  });

  it('leave out what nobody wants any more, and go on after their thread has died', async () => {
    const offline = openOfflineEmbeddings();
    const gone = new AbortController();
    const dropped = offline.embed(
      Array.from({ length: 2000 }, (_, n) => long(n)),
      { signal: gone.signal },
    );
    gone.abort(new Error('gone'));
    await assert.rejects(dropped, /gone/);
    const startedMs = performance.now();
    assert.equal((await offline.embed(['next'], { signal }))[0]?.length, 512);
    assert.ok(performance.now() - startedMs < 20_000, 'two thousand texts would take longer');
    const closed = offline.embed([long(1)], { signal });
    await Promise.all([assert.rejects(closed, /stopping/), offline.close()]);
    assert.equal((await offline.embed(['again'], { signal })).length, 1);
    await offline.close();
  });

  it('ask nobody to pay', async () => {
    const pay = () => Promise.reject(new Error('somebody is asked to pay'));
    const embeddings = createEmbeddings({ embeddingModel: 'offline', modelKeys: {} }, pay);
    const vectors = await embeddings.embed('offline', ['tea'], { signal, payer: forNobody });
    await embeddings.close();
    assert.equal(vectors.length, 1);
  });

  it('give each text its own vector, however often it comes and whoever asks meanwhile', async () => {
    const embeddings = createEmbeddings({ embeddingModel: 'offline', modelKeys: {} }, unpaid);
    try {
      const one = async (text: string) => (await embeddings.embed('offline', [text], { signal, payer: forNobody }))[0];
      const together = embeddings.embed('offline', ['tea', 'tea', 'rain', 'tea', 'coal'], { signal, payer: forNobody });
      const [between, all] = await Promise.all([one('rain'), together]);
      const expected = [await one('tea'), await one('tea'), between, await one('tea'), await one('coal')];
      assert.deepEqual(all, expected);
      assert.equal(new Set(all.map((vector) => vector.join())).size, 3);
      const fresh = createEmbeddings({ embeddingModel: 'offline', modelKeys: {} }, unpaid);
      assert.deepEqual(await fresh.embed('offline', ['coal'], { signal, payer: forNobody }), [all[4]]);
      await fresh.close();
    } finally {
      await embeddings.close();
    }
  });
});
