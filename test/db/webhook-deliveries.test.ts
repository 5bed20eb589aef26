import assert from 'node:assert/strict';
import type { Tx } from '../../db/database.ts';
import {
  claimDeliveries,
  finishDelivery,
  giveBackDelivery,
  listDeliveries,
  redeliver,
} from '../../db/webhook-deliveries.ts';
import { insertWebhook } from '../../db/webhooks.ts';
import { newId } from '../../lib/new-id.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { sessionsWaitingIn } from '../support/queries/postgres.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('the end of a delivery', () => {
  const tenant = newId();
  const hook = { id: newId(), url: 'https://ops.example/hook' };
  const delivery = { id: newId(), attempts: 1 };
  const failed = { status: 'pending', responseStatus: 500, error: 'The endpoint answered 500.', waitMs: 5000 } as const;
  let testDatabase: TestDatabase;

  before(async () => {
    testDatabase = await openTestDatabase(DOMAIN_MODE);
    const { database } = testDatabase;
    await database.asOwner((client) => client.query(`insert into tenants (id, name) values ($1, 't')`, [tenant]));
    await database.withTenant(tenant, async (tx) => {
      await insertWebhook(tx, { ...hook, tenantId: tenant, events: ['*'] });
      await tx.query(
        `insert into webhook_deliveries (id, tenant_id, webhook_id, type, status, attempts, next_at) values ($1, $2, $3, 't', 'pending', 1, now())`,
        [delivery.id, tenant, hook.id],
      );
    });
  });
  after(() => testDatabase.close());

  it('holds the delivery before its webhook, as who asks for it again does', async function () {
    if (DOMAIN_MODE === 'embedded') this.skip();
    const { database } = testDatabase;
    const finishing = await database.withTenant(tenant, async (tx) => {
      await tx.query('select from webhook_deliveries where id = $1 for update', [delivery.id]);
      const end = database.withTenant(tenant, (other) => finishDelivery(other, { hook, delivery }, failed));
      const waiting = () => sessionsWaitingIn(database, 'update webhook_deliveries');
      await waitUntil('the end waits for the delivery', async () => (await waiting()).length > 0);
      await tx.query('select from webhooks where id = $1 for update nowait', [hook.id]);
      return { end };
    });
    assert.ok((await finishing.end) >= 0);
  });

  const inTenant = <T>(work: (tx: Tx) => Promise<T>) => testDatabase.database.withTenant(tenant, work);
  const again = () => inTenant((tx) => redeliver(tx, { webhookId: hook.id, id: delivery.id }));
  /** What a sender gets that then takes longer than it may. */
  const claim = async () => {
    const due = { webhookId: hook.id, limit: 1, leaseMs: 0, fields: {} };
    const [claimed] = await inTenant((tx) => claimDeliveries(tx, due));
    assert.ok(claimed);
    return claimed;
  };
  const arrived = { status: 'delivered', responseStatus: 200, error: undefined, waitMs: 0 } as const;
  const finish = (made: typeof delivery, how: typeof arrived | typeof failed) =>
    inTenant((tx) => finishDelivery(tx, { hook, delivery: made }, how));
  const giveBack = (made: typeof delivery) => inTenant((tx) => giveBackDelivery(tx, made));
  const read = async () => {
    const [row] = await inTenant((tx) => listDeliveries(tx, { webhookId: hook.id, limit: 1 }));
    return row;
  };

  for (const [what, end] of [
    ['failure', (made: typeof delivery) => finish(made, failed)],
    ['return', giveBack],
  ] as const) {
    it(`stays as it is whatever ${what} an earlier attempt reports late`, async () => {
      await again();
      const earlier = await claim();
      const later = await claim();
      const underWay = await read();
      await end(earlier);
      assert.deepEqual(await read(), underWay);
      await finish(later, arrived);
      const delivered = await read();
      assert.equal(delivered?.status, 'delivered');
      await end(earlier);
      assert.deepEqual(await read(), delivered);
    });

    it(`stays as it is whatever ${what} is reported by an attempt from before it was asked for again`, async () => {
      await again();
      const earlier = await claim();
      await again();
      const later = await claim();
      assert.equal(later.attempts, earlier.attempts);
      await finish(later, arrived);
      const delivered = await read();
      await end(earlier);
      assert.deepEqual(await read(), delivered);
    });
  }
});
