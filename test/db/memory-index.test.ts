import assert from 'node:assert/strict';
import { ensureMemoryIndex } from '../../db/memory-index.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { DOMAIN_MODE } from '../support/modes.ts';

for (const owner of ['memory_entries', 'memory_fragments'] as const)
  describe(`The index of an embedding model for ${owner}`, () => {
    let test: TestDatabase;
    before(async () => {
      test = await openTestDatabase(DOMAIN_MODE);
    });
    after(() => test.close());

    const indexes = async () => {
      const text = `select c.relname as name, i.indisvalid as valid from pg_index i join pg_class c on c.oid = i.indexrelid
      where c.relname like '${owner}_near_%' and c.relname <> '${owner}_near_offline' order by 1`;
      return (await test.database.asOwner((client) => client.query<{ name: string; valid: boolean }>(text))).rows;
    };

    it('is made once, however many ask for it at a time, and again where it was left half made', async () => {
      const of = { owner, model: `openai/it's-a-model`, dimensions: 3072 };
      const made = await Promise.all([1, 2, 3].map(() => ensureMemoryIndex(test.database, of)));
      assert.equal(made.filter(Boolean).length, 1);
      assert.equal(await ensureMemoryIndex(test.database, of), false);
      const [index, ...others] = await indexes();
      assert.deepEqual([index?.valid, others], [true, []]);
      if (test.database.kind === 'pglite') return;
      const spoil = `update pg_index set indisvalid = false where indexrelid = '${index?.name}'::regclass`;
      await test.database.asOwner((client) => client.query(spoil));
      assert.equal(await ensureMemoryIndex(test.database, of), true);
      assert.deepEqual(await indexes(), [{ name: index?.name, valid: true }]);
    });

    it('is not made for the model that comes with Drover, nor for what no index can hold', async () => {
      assert.equal(await ensureMemoryIndex(test.database, { owner, model: 'offline', dimensions: 512 }), false);
      assert.equal(await ensureMemoryIndex(test.database, { owner, model: 'huge', dimensions: 5000 }), false);
    });
  });
