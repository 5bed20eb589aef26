/** What somebody with SQL can do to the audit log: the statements, by table and column, are the attacks and stay in view. */
import assert from 'node:assert/strict';
import { newId } from '../../../lib/new-id.ts';
import { listUnsealedTenants, sealAuditRows } from '../../../db/audit.ts';
import { recordAudit } from '../../../modules/audit/record-audit.ts';
import { sealAudit } from '../../../modules/audit/seal-audit.ts';
import { verifyAudit } from '../../../modules/audit/verify-audit.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { DOMAIN_MODES } from '../../support/modes.ts';
import { tamperWithAudit } from '../../support/queries/audit.ts';

const COLUMNS: Record<string, string> = {
  id: 'gen_random_uuid()',
  tenant_id: 'gen_random_uuid()',
  workspace_id: 'gen_random_uuid()',
  action: `'tool.executed'`,
  actor_type: `'operator'`,
  actor_id: 'gen_random_uuid()',
  target_type: `'policy'`,
  target_id: `'other'`,
  digest: `'00'`,
  details: `details || '{"number": 99}'`,
  ip: `'192.0.2.9'`,
  forwarded_for: `'192.0.2.9'`,
  request_id: `'other'`,
  created_at: `created_at + interval '1 microsecond'`,
  seq: '70',
  hash: `repeat('0', 64)`,
};

for (const mode of DOMAIN_MODES) {
  describe(`The audit log's chain in ${mode} mode`, () => {
    let api: TestApi;
    let tenant: string;

    before(async () => {
      api = await startTestApi(mode);
    });
    after(() => api.close());
    beforeEach(async () => {
      tenant = newId();
      await write(7);
      await sealAudit(api.context);
    });

    const write = (count: number) =>
      api.context.db.withTenant(tenant, async (tx) => {
        const by = { tenantId: tenant };
        for (let number = 1; number <= count; number += 1) {
          await recordAudit(tx, by, { action: 'agent.created', target: ['agent', newId()], details: { number } });
        }
      });
    const verdict = (after = 0, limit = 100) =>
      api.context.db.withTenant(tenant, (tx) => verifyAudit(tx, { after, limit }));
    const tamper = (sql: string) => tamperWithAudit(api.context.db, sql.replaceAll('$t', `'${tenant}'`));

    it('holds, in pieces too, and counts what has no place yet', async () => {
      await write(2);
      const { broken, head, checked, next, unsealed } = await verdict();
      assert.deepEqual(
        { broken, checked, next, seq: head.seq, open: unsealed.count },
        { broken: null, checked: 7, next: null, seq: 7, open: 2 },
      );
      const first = await verdict(0, 4);
      assert.deepEqual([first.broken, first.next], [null, 4]);
      const second = await verdict(4, 4);
      assert.deepEqual([second.broken, second.next, second.head], [null, null, head]);
    });

    it('is sealed first for the tenants whose rows have waited longest', async () => {
      const tenants: string[] = [];
      for (let n = 0; n < 3; n++) {
        tenant = newId();
        await write(1);
        // The order of ids is none of time.
        tenants.push(tenant);
      }
      const oldest = tenants.toSorted().at(-1) ?? '';
      tenant = oldest;
      await tamper(`update audit_log set created_at = created_at - interval '1 day' where tenant_id = $t`);
      assert.deepEqual(await listUnsealedTenants(api.context.db, 1), [oldest]);
      assert.equal(await sealAudit(api.context), 3);
    });

    it('is up to date after one round, however many rows a burst has left', async () => {
      await write(1);
      await tamper(`insert into audit_log (id, tenant_id, action, actor_type, actor_id, target_type)
        select gen_random_uuid(), $t, 'agent.created', 'api_key', gen_random_uuid(), 'agent' from generate_series(1, 2500)`);
      await sealAudit(api.context);
      const { broken, unsealed } = await verdict();
      assert.deepEqual([broken, unsealed.count], [null, 0]);
    });

    for (const [column, value] of Object.entries(COLUMNS)) {
      it(`breaks where ${column} was changed`, async () => {
        await tamper(`update audit_log set ${column} = ${value} where tenant_id = $t and seq = 4`);
        const { broken } = await verdict();
        assert.equal(broken?.seq, 4);
        assert.equal(broken.reason, ['tenant_id', 'seq'].includes(column) ? 'missing' : 'altered');
      });
    }
    it('has a test for each of its columns', async () => {
      const { rows } = await api.context.db.asOwner((client) =>
        client.query<{ name: string }>(
          `select attname as name from pg_attribute where attrelid = 'audit_log'::regclass and attnum > 0`,
        ),
      );
      assert.deepEqual(rows.map(({ name }) => name).toSorted(), Object.keys(COLUMNS).toSorted());
    });
    for (const seq of [1, 4, 7]) {
      it(`breaks where row ${seq} of 7 was deleted`, async () => {
        await tamper(`delete from audit_log where tenant_id = $t and seq = ${seq}`);
        assert.deepEqual((await verdict()).broken, { seq, id: null, reason: 'missing' });
      });
    }
    it('breaks where two rows changed places, or all were deleted', async () => {
      await tamper('update audit_log set seq = -seq where tenant_id = $t and seq in (3, 4)');
      await tamper('update audit_log set seq = seq + 7 where tenant_id = $t and seq < 0');
      assert.equal((await verdict()).broken?.seq, 3);
      await tamper('delete from audit_log where tenant_id = $t');
      assert.deepEqual((await verdict()).broken, { seq: 1, id: null, reason: 'missing' });
    });
    it('breaks in a piece that begins after a row that is gone, or after the head', async () => {
      await tamper('delete from audit_log where tenant_id = $t and seq > 4');
      for (const after of [5, 7]) {
        const { broken, head, checked } = await verdict(after);
        assert.deepEqual(broken, { seq: after, id: null, reason: 'missing' });
        assert.deepEqual([head, checked], [{ seq: 0, hash: '' }, 0], 'no link is known to hold');
      }
      assert.deepEqual((await verdict(4)).broken, { seq: 5, id: null, reason: 'missing' });
      assert.deepEqual((await verdict(8)).broken, { seq: 8, id: null, reason: 'not the head' });
    });
    it('breaks in an empty piece whose row is not the recorded head', async () => {
      assert.equal((await verdict(7)).broken, null);
      await tamper(`update audit_heads set hash = repeat('0', 64) where tenant_id = $t`);
      const { broken } = await verdict(7);
      assert.deepEqual([broken?.seq, broken?.reason, typeof broken?.id], [7, 'not the head', 'string']);
      await tamper('update audit_heads set seq = 6 where tenant_id = $t');
      assert.equal((await verdict(7)).broken?.reason, 'not the head');
    });
    it('breaks where its end was made anew', async () => {
      await tamper('delete from audit_log where tenant_id = $t and seq = 7');
      await tamper(
        'update audit_heads set seq = 6, hash = (select hash from audit_log where tenant_id = $t and seq = 6) where tenant_id = $t',
      );
      const noted = (await verdict()).head;
      await write(1);
      await sealAudit(api.context);
      // Nothing inside shows it: the head that the service has logged does (docs/audit.md).
      const { broken, head } = await verdict();
      assert.deepEqual([broken, noted.seq, head.seq], [null, 6, 7]);
      const logged = api.log.filter((line) => line['msg'] === 'audit sealed' && line['tenant'] === tenant);
      assert.equal(logged.length, 2);
      assert.notEqual(logged[0]?.['hash'], head.hash);
    });

    it('is added to once, however many sealers there are', async () => {
      await write(40);
      await Promise.all(Array.from({ length: 4 }, () => sealAuditRows(api.context.db, tenant, 7)));
      await sealAudit(api.context);
      const { broken, head, unsealed } = await verdict();
      assert.deepEqual([broken, head.seq, unsealed.count], [null, 47, 0]);
    });

    it('cannot be written to by the service', async () => {
      const asService = (sql: string) => api.context.db.withTenant(tenant, (tx) => tx.query(sql));
      for (const sql of [
        `update audit_log set seq = 9`,
        `delete from audit_log`,
        `truncate audit_log`,
        `insert into audit_log (id, tenant_id, action, actor_type, target_type, seq) select gen_random_uuid(), tenant_id, action, actor_type, target_type, 8 from audit_log`,
        `insert into audit_log (id, tenant_id, action, actor_type, target_type, created_at) select gen_random_uuid(), tenant_id, action, actor_type, target_type, now() from audit_log`,
      ]) {
        await assert.rejects(asService(sql), /permission denied/, sql);
      }
    });
    it('cannot be written anew by maintenance', async () => {
      const changed = await api.context.db.asMaintenance((tx) =>
        tx.query(`update audit_log set hash = 'x' where seq is not null returning id`),
      );
      assert.deepEqual(changed, []);
      await assert.rejects(
        api.context.db.asMaintenance((tx) => tx.query(`update audit_log set details = '{}'`)),
        /permission denied/,
      );
    });
  });
}
