import assert from 'node:assert/strict';
import { dropExpired } from '../../../modules/memory/drop-expired.ts';
import { createSpace, removeFragment, requireFragment } from '../../../modules/memory/spaces.ts';
import { writeToSpace } from '../../../modules/memory/write-fragment.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import { tablesWith } from '../../support/find-text.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { databaseTimeIn, sessionsWaitingIn } from '../../support/queries/postgres.ts';
import { endFragmentsOf } from '../../support/queries/memory.ts';
import { waitUntil } from '../../support/wait-until.ts';

describe('A fragment that is taken away while somebody writes it', () => {
  let engine: Engine;
  let space: string;

  before(async () => {
    engine = await openEngine(undefined, { DROVER_EMBEDDING_MODEL: 'off' });
    space = (await inTenant((tx) => createSpace(tx, engine.caller, { scope: 'team' }))).id;
  });
  after(() => engine.close());

  const inTenant = <T>(work: Parameters<typeof engine.context.db.withTenant<T>>[1]) =>
    engine.context.db.withTenant(engine.tenantId, work);
  const written = (data: string, more: object = {}) => ({
    space_id: space,
    content: { type: 'text' as const, data },
    ...more,
  });
  const add = async (data: string, more: object = {}) =>
    (await inTenant((tx) => writeToSpace(tx, engine.caller, written(data, more)))).fragment.id;
  /** Until a statement on fragments or their words waits for a transaction. */
  const someoneWaits = () =>
    waitUntil(
      'somebody waits',
      async () => (await sessionsWaitingIn(engine.context.db, 'delete from memory_')).length > 0,
    );

  it('leaves no word behind', async function () {
    // There one session has all transactions, one after the other.
    if (DOMAIN_MODE === 'embedded') this.skip();
    const id = await add('The launch of the quollrocket is in May.');
    let removed: Promise<void> = Promise.resolve();
    await inTenant(async (tx) => {
      await writeToSpace(tx, engine.caller, written('The launch of the quollrocket is in June.', { fragment_id: id }));
      removed = inTenant((other) => removeFragment(other, engine.caller, id));
      await someoneWaits();
    });
    await removed;
    assert.deepEqual(await tablesWith(engine.context.db, 'quollrocket'), []);
  });

  it('stays where its time is not over any more', async function () {
    // There one session has all transactions, one after the other.
    if (DOMAIN_MODE === 'embedded') this.skip();
    const hour = new Date(Date.now() + 3_600_000);
    const id = await add('The launch is in May.', { expires_at: hour });
    let swept: Promise<unknown> = Promise.resolve();
    await inTenant(async (tx) => {
      await databaseTimeIn(tx);
      await endFragmentsOf(engine, space);
      await writeToSpace(tx, engine.caller, written('The launch is in June.', { fragment_id: id, expires_at: hour }));
      swept = dropExpired(engine.context);
      await someoneWaits();
    });
    await swept;
    const { fragment } = await inTenant((tx) => requireFragment(tx, engine.caller, { id }));
    assert.deepEqual([fragment.version, fragment.content.data], [2, 'The launch is in June.']);
  });
});
