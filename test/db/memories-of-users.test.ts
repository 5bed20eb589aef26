import assert from 'node:assert/strict';
import type { Tx } from '../../db/database.ts';
import { findNearTexts, listNewestSaid } from '../../db/memory-extractions.ts';
import { listMemories } from '../../db/memory-pages.ts';
import { findCandidates, listProfile } from '../../db/memory-search.ts';
import { migrate } from '../../db/migrate.ts';
import { newId } from '../../lib/new-id.ts';
import { addMemory, toMemoryRow } from '../../modules/memory/add-memory.ts';
import { indexMemories } from '../../modules/memory/index-memories.ts';
import { maintain } from '../../modules/platform/maintain.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import {
  addEntriesOfUsers,
  breakIndexOfUsers,
  stateOfUsers,
  undoUsersOfMemories,
} from '../support/queries/memory-indexes.ts';
import { analyze, countRowsRead } from '../support/queries/postgres.ts';

const [ENTRIES, USERS] = [6000, 600];
/** What recall counts of an agent's entries at most. */
const COUNTED = 5000;
const OWN = ENTRIES / USERS;
const ownedBy = { userId: 'user-7', threadId: undefined };
const vector = { model: 'test/three', vector: '[1,0,1]', dimensions: 3 };

describe('What an agent of many users remembers of one of them', () => {
  let test: TestPlatform;
  const agent = newId();
  const whose = { userId: 'user-7', isApart: false };
  before(async () => {
    test = await openTestPlatform();
    await addEntriesOfUsers(test, agent, {
      count: ENTRIES,
      users: USERS,
      content: 'The user likes coffee from the shop',
    });
    await analyze(test.context.db);
  });
  after(() => test.close());

  const readings = (read: (tx: Tx) => Promise<unknown>) => countRowsRead(test.context.db, test.tenantId, read);
  /** Rows of entries that are read, and of their words. */
  const countRead = async (read: (tx: Tx) => Promise<unknown>) => {
    const { counts } = await readings(read);
    return { entries: counts.get('memory_entries') ?? 0, words: counts.get('memory_terms') ?? 0 };
  };
  const listed = (tx: Tx) => listMemories(tx, { agentId: agent, status: 'active', userId: 'user-7', limit: 50 });
  const recalled = (tx: Tx) =>
    findCandidates(tx, { agentId: agent, ownedBy }, { text: 'Who likes coffee from the shop?', vector });

  it('is listed without a look at what it remembers of others', async () => {
    const { entries } = await countRead(listed);
    assert.ok(entries <= 2 * OWN, `${entries} entries are read`);
  });

  it('is recalled without a look at the words, the vectors and the profile of others', async () => {
    const { entries, words } = await countRead(recalled);
    assert.ok(entries <= COUNTED + 20 * OWN, `${entries} entries are read`);
    assert.ok(words <= 20 * OWN, `${words} words are read`);
    const profile = await countRead((tx) =>
      listProfile(tx, { agentId: agent, ownedBy }, { at: new Date(), limit: 50 }),
    );
    assert.ok(profile.entries <= OWN, `${profile.entries} entries are read`);
  });

  it('is what a turn is learnt beside, with what is of nobody', async () => {
    const said = await countRead((tx) => listNewestSaid(tx, { agentId: agent, whose, limit: 12 }));
    assert.ok(said.entries <= 2 * OWN, `${said.entries} entries are read`);
    const near = { agentId: agent, whose, model: 'test/three', vectors: [vector.vector], leastCosine: 0.9 };
    const { entries } = await countRead((tx) => findNearTexts(tx, near));
    assert.ok(entries <= 4 * OWN, `${entries} entries are read`);
  });

  it('is found, with no other, while entries of before get their users in batches, and after', async () => {
    const { db, config } = test.context;
    const add = (content: string, metadata: object) => {
      const from = { tenantId: test.tenantId, agentId: agent, origin: 'user' as const };
      const row = toMemoryRow({ content, memory_type: 'SEMANTIC', metadata: { ...metadata } }, from);
      return db.withTenant(test.tenantId, (tx) => addMemory(tx, row));
    };
    const inTenant = <T>(read: (tx: Tx) => Promise<T>) => db.withTenant(test.tenantId, read);
    await add('Nobody said so.', {});
    await undoUsersOfMemories(db);
    await migrate(config, db);
    const { unnamed, missing } = await stateOfUsers(db);
    assert.deepEqual(
      [unnamed, missing.at(-1)],
      [1000, 'memory_entries_of_user'],
      'the migration leaves them to maintenance',
    );
    await add('The user likes tea.', { user_id: 'user-7' });
    const all = async () => {
      const { rows } = await inTenant(listed);
      assert.ok(rows.every(({ metadata }) => metadata['user_id'] === 'user-7'));
      const candidates = await inTenant(recalled);
      const said = await inTenant((tx) => listNewestSaid(tx, { agentId: agent, whose, limit: 50 }));
      return [rows.length, candidates.length, said.length];
    };
    const expected = [OWN + 1, OWN + 1, OWN + 2];
    assert.deepEqual(await all(), expected);
    if (db.kind === 'postgres') {
      await breakIndexOfUsers(db);
      assert.deepEqual(await all(), expected, 'an index that is not whole is none');
    }
    assert.equal(await indexMemories(test.context, 700), ENTRIES + 1, 'the new one has its user');
    assert.deepEqual(await stateOfUsers(db), { unnamed: 0, missing: [] });
    assert.deepEqual(await all(), expected);
    const { entries } = await countRead(listed);
    assert.ok(entries <= 2 * OWN, `${entries} entries are read`);
    assert.deepEqual(await maintain(test.context, 'index-memories'), { filled: 0 });
  });

  it('may be of a name of any length in metadata, of which none is nobody', async () => {
    const from = { tenantId: test.tenantId, agentId: agent, origin: 'user' as const };
    const metadata = { user_id: 'u'.repeat(60_000) };
    const row = toMemoryRow({ content: 'It is a long name.', memory_type: 'SEMANTIC', metadata }, from);
    await test.context.db.withTenant(test.tenantId, (tx) => addMemory(tx, row));
    const other = { agentId: agent, whose: { userId: 'somebody', isApart: false }, limit: 50 };
    const said = await test.context.db.withTenant(test.tenantId, (tx) => listNewestSaid(tx, other));
    assert.deepEqual(
      said.map(({ content }) => content),
      ['Nobody said so.'],
    );
  });
});
