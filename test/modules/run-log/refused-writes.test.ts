import assert from 'node:assert/strict';
import { openEngine, text, type Engine } from '../../support/engine.ts';
import { countRefusals, fillDisk, freeDisk } from '../../support/queries/postgres.ts';
import { waitUntil } from '../../support/wait-until.ts';

describe('Commits that a database with a full disk refuses', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  it('are told once, however often they are repeated, and so is their end; soon after they are not told again', async () => {
    const { db } = engine.context;
    const agent = await engine.agent();
    const told = () =>
      engine.platform.log
        .filter(({ msg }) => String(msg).startsWith('the database takes'))
        .map(({ msg, level }) => [level, msg]);
    const driveWhileFull = async (whileFull: () => void) => {
      let isFull = false;
      engine.say(async () => {
        await fillDisk(db);
        isFull = true;
        return text('done');
      });
      const { run } = await engine.start(agent, 'go');
      const driving = engine.drive(run);
      await waitUntil('it is repeated', async () => isFull && (await countRefusals(db)) > 2);
      whileFull();
      await freeDisk(db);
      await driving;
      assert.equal((await engine.log(run)).at(-1)?.type, 'turn.completed');
    };
    const refused = [40, 'the database takes no writes (disk full); work waits for it'];
    const over = [30, 'the database takes writes again'];
    await driveWhileFull(() => assert.deepEqual(told(), [refused]));
    assert.deepEqual(told(), [refused, over]);
    await driveWhileFull(() => undefined);
    assert.deepEqual(told(), [refused, over]);
  });
});
