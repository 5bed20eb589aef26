import assert from 'node:assert/strict';
import { playTasks, referenceOf } from '../../scripts/shop/play-tasks.ts';
import { OWN_SHOP, OWN_TASKS } from '../support/own-shop.ts';
import { TEST_DATABASE_URL, TEST_REDIS_URL } from '../support/modes.ts';
import { sized } from '../support/size.ts';

describe('Tasks of a shop', () => {
  const changed = (id: number) => referenceOf(OWN_SHOP, OWN_TASKS[id] ?? { id: '', actions: [] });

  it('have references: refunds, differences and refusals as the shop has them', () => {
    const { users, orders } = changed(0);
    assert.equal(users['u0']?.payment_methods['gift_0']?.balance, 251.5);
    assert.equal(orders['#P0']?.status, 'cancelled');
    assert.deepEqual(changed(1), { users: {}, orders: {} }, 'a delivered order is not cancelled');
    assert.equal(changed(4).users['u4']?.payment_methods['gift_4']?.balance, 149);
    assert.equal(changed(4).orders['#P4']?.items[0]?.item_id, 'lamp-1');
    assert.equal(changed(6).orders['#D6']?.['exchange_price_difference'], 0);
    assert.deepEqual(Object.keys(changed(8).orders), ['#P8', '#D8']);
  });
});

const suite = TEST_DATABASE_URL === undefined ? describe.skip : describe;

suite('Tasks of a shop whose workers are killed', function () {
  this.timeout(600_000);

  it('end with the databases of their references, each change made once', async () => {
    const played = await playTasks({
      data: OWN_SHOP,
      tasks: OWN_TASKS,
      databaseUrl: TEST_DATABASE_URL,
      redisUrl: TEST_REDIS_URL,
      mode: TEST_REDIS_URL === undefined ? 'postgres' : 'full',
      workers: 2,
      killEveryMs: 300,
      mostKills: sized({ usual: 3, nightly: 6 }),
      stepMs: 200,
      settleMs: 400_000,
      signal: AbortSignal.timeout(550_000),
      say: () => undefined,
    });
    assert.deepEqual(played.wrong, []);
    assert.equal(played.changes, played.wanted);
    assert.ok(played.kills > 0);
  });
});
