import assert from 'node:assert/strict';
import { searchFragments } from '../../../db/fragment-search.ts';
import { insertMemories } from '../../../db/memory-entries.ts';
import { findByText } from '../../../db/memory-forget.ts';
import { findCandidates } from '../../../db/memory-search.ts';
import { newId } from '../../../lib/new-id.ts';
import { addMemory, toMemoryRow } from '../../../modules/memory/add-memory.ts';
import { openTestPlatform, type TestPlatform } from '../../support/platform.ts';
import { addFragmentTexts, addSpace } from '../../support/queries/memory.ts';
import { explaining } from '../../support/queries/postgres.ts';

/** More than the search reads of one word, and together more than it compares one by one. */
const OF_EACH = 1100;

describe('The search by words that very many entries have', function () {
  this.timeout(300_000);
  let test: TestPlatform;
  const said = 'The server budget was approved on Tuesday.';
  const question = { text: 'When was the server budget approved?', vector: undefined };
  const newer = ['The server is new.', 'The budget is low.', 'The trip was approved.'].flatMap((text) =>
    Array.from({ length: OF_EACH }, () => text),
  );

  before(async () => {
    test = await openTestPlatform();
  });
  after(() => test.close());

  it('finds the one that has them all, however many newer ones have one of them', async () => {
    const agentId = newId();
    const from = { tenantId: test.tenantId, agentId, origin: 'user' as const };
    const rowOf = (content: string) => toMemoryRow({ content, memory_type: 'SEMANTIC' as const }, from);
    const found = await test.context.db.withTenant(test.tenantId, async (tx) => {
      const { id } = await addMemory(tx, rowOf(said));
      await insertMemories(tx, newer.map(rowOf));
      const [first, second] = [{ agentId }, { agentId, memoryTypes: ['EPISODIC' as const] }];
      const candidates = await findCandidates(tx, first, question);
      assert.deepEqual(await findCandidates(tx, second, question), []);
      const best = candidates.toSorted((a, b) => b.lexical - a.lexical)[0];
      return { isBest: best?.id === id, words: [...(best?.words.keys() ?? [])].toSorted() };
    });
    assert.deepEqual(found, { isBest: true, words: ['approv', 'budget', 'server'] });
  });

  it('finds the same in the same order among the entries of one user, where all are theirs', async () => {
    const agentId = newId();
    const from = { tenantId: test.tenantId, agentId, origin: 'user' as const };
    // Longer and longer ones, so that it counts of which the average length is taken.
    const texts = Array.from(
      { length: 700 },
      (_, n) => `${said} ${'More was said of it then. '.repeat(Math.floor(n / 50))}${n}`,
    );
    const [one, all] = await test.context.db.withTenant(test.tenantId, async (tx) => {
      const rows = texts.map((content) =>
        toMemoryRow({ content, memory_type: 'SEMANTIC' as const, metadata: { user_id: 'ada' } }, from),
      );
      await insertMemories(tx, rows);
      const ownedBy = { userId: 'ada', threadId: undefined };
      return [
        await findCandidates(tx, { agentId, ownedBy }, question),
        await findCandidates(tx, { agentId }, question),
      ];
    });
    const ranked = (found: typeof one) => found?.map(({ id, lexical }) => [id, lexical]);
    assert.ok((all?.length ?? 0) > 100);
    assert.deepEqual(ranked(one), ranked(all));
  });

  it('finds what to forget without making words anew of what the index has', async () => {
    const agentId = newId();
    const from = { tenantId: test.tenantId, agentId, origin: 'user' as const };
    const texts = [said, ...newer.slice(0, 50), 'The trip to K\u00F6ln was long.', 'The trip to Ko\u0308ln was long.'];
    const plans: string[] = [];
    await test.context.db.withTenant(test.tenantId, async (tx) => {
      await insertMemories(
        tx,
        texts.map((content) => toMemoryRow({ content, memory_type: 'SEMANTIC' }, from)),
      );
      const of = { agentId, words: 'Tuesday', literals: [] };
      assert.equal((await findByText(tx, of)).length, 1);
      await findByText(
        explaining(tx, (plan) => plans.push(plan)),
        of,
      );
    });
    // The one with the word, and the one whose letters are composed otherwise than those of a query.
    assert.match(plans.join('\n'), /Append \(actual rows=2(?:\.00)? /);
  });

  it('finds the one that has them all in a space, too', async () => {
    const spaceId = await addSpace(test);
    const texts = [said, ...newer].map((text) => ({ id: newId(), text }));
    await addFragmentTexts(test, spaceId, texts);
    const scope = { spaceIds: [spaceId], agentId: 'ada', limit: 5 };
    const [best] = await test.context.db.withTenant(test.tenantId, (tx) => searchFragments(tx, scope, question));
    assert.equal(best?.content.data, said);
  });
});
