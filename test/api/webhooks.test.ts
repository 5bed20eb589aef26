import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import { LIMITS } from '../../core/limits.ts';
import { claimDeliveries } from '../../db/webhook-deliveries.ts';
import { takeDueWebhooks } from '../../db/webhooks.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { DOMAIN_MODES } from '../support/modes.ts';
import { dispatchWebhooks } from '../../modules/webhooks/dispatch-webhooks.ts';
import { sendWebhook } from '../../modules/webhooks/send-webhook.ts';
import { sendDueWebhooks } from '../support/webhooks.ts';
import { waitUntil } from '../support/wait-until.ts';
import { loseSecretKeys } from '../support/queries/tenants.ts';
import {
  failForHours,
  freeWebhooks,
  letDeliveriesPass,
  letWebhooksPass,
  pauseOfWebhook,
  setAttempts,
  stopWebhooks,
  tellThrough,
} from '../support/queries/webhooks.ts';
import { newName } from '../support/new-name.ts';

/** In place of a status: the endpoint does not answer. */
const NONE = 0;

interface Delivery {
  id: string;
  type: string;
  status: string;
  attempts: number;
  response_status: number | null;
  error: string | null;
  seq: number;
}

for (const mode of DOMAIN_MODES) {
  describe(`Webhooks in ${mode} mode`, () => {
    let api: TestApi;
    let receiver: LocalServer;
    let answer = 200;
    /** What is answered before that. */
    let answers: number[] = [];
    let tenant: { id: string; key: string };
    const tenants: { id: string }[] = [];
    let agent: string;

    before(async () => {
      receiver = await startServer((_request, response) => {
        const status = answers.shift() ?? answer;
        if (status === NONE) return;
        response.writeHead(status);
        response.end();
      });
      api = await startTestApi(mode, { env: { DROVER_EGRESS_ALLOW: '127.0.0.1' } });
    });
    after(async () => {
      await api.close();
      await receiver.close();
    });
    beforeEach(async () => {
      answer = 200;
      answers = [];
      receiver.seen.length = 0;
      // What tests before this one have left is not due any more.
      for (const { id } of tenants) await stopWebhooks({ ...api, tenantId: id });
      tenant = await newTenant();
      agent = (await call('POST', '/v1/agents', { name: newName() })).json.id;
    });

    const newTenant = async () => {
      const made = await api.newTenant();
      tenants.push(made);
      return made;
    };
    const call = (method: string, path: string, body?: unknown) =>
      api.call(method, path, { key: tenant.key, ...(body !== undefined && { body }) });
    const hook = async (events: string[], url = `${receiver.url}/hook`) =>
      (await call('POST', '/v1/webhooks', { url, events })).json;
    const startRun = async (): Promise<string> => (await call('POST', `/v1/agents/${agent}/runs`, {})).json.run_id;
    const deliveriesOf = async (id: string): Promise<Delivery[]> =>
      (await call('GET', `/v1/webhooks/${id}/deliveries`)).json.deliveries;
    /** As if the time until the next attempt had passed. */
    const letTimePass = () => letWebhooksPass(here());
    const here = () => ({ ...api, tenantId: tenant.id });

    it('tell of an event once, signed, with type, time and place in the log', async () => {
      const { id, secret } = await hook(['run.created']);
      const run = await startRun();
      assert.equal(await sendDueWebhooks(api.context), 1);
      assert.equal(await sendDueWebhooks(api.context), 0);
      const [seen] = receiver.seen;
      assert.ok(seen && receiver.seen.length === 1);
      const headers = seen.headers as Record<string, string>;
      const body = new Webhook(secret).verify(seen.body, headers) as { type: string; data: Record<string, unknown> };
      assert.deepEqual([body.type, body.data['run_id'], body.data['seq']], ['run.created', run, 1]);
      assert.throws(() => new Webhook(secret).verify(`${seen.body} `, headers));
      const [delivery] = await deliveriesOf(id);
      assert.deepEqual(
        [delivery?.id, delivery?.status, delivery?.attempts, delivery?.response_status],
        [headers['webhook-id'], 'delivered', 1, 200],
      );
    });

    it('show their secret once, and keep it encrypted and out of the list of secrets', async () => {
      const { id, secret } = await hook(['*']);
      assert.match(secret, /^whsec_/);
      assert.equal((await call('GET', `/v1/webhooks/${id}`)).json.secret, undefined);
      assert.deepEqual((await call('GET', '/v1/secrets')).json.secrets, []);
      const { json } = await call('GET', `/v1/audit?target=${id}`);
      assert.equal(json.audit[0].action, 'webhook.created');
      assert.ok(!JSON.stringify([json, api.log]).includes(secret.slice(6)));
    });

    it('get types, families or everything, and nothing of others or while they are disabled', async () => {
      const [family, type, all] = [await hook(['run.*']), await hook(['run.cancelled']), await hook(['*'])];
      const words = await hook(['wait', 'check', 'intent', 'context']);
      assert.deepEqual(words.events, ['wait', 'check', 'intent', 'context']);
      const off = await hook(['*']);
      await call('PATCH', `/v1/webhooks/${off.id}`, { status: 'disabled' });
      const stranger = await newTenant();
      const theirs = await api.call('POST', '/v1/webhooks', {
        key: stranger.key,
        body: { url: receiver.url, events: ['*'] },
      });
      const run = await startRun();
      await call('POST', `/v1/runs/${run}/cancel`, {});
      const { json: log } = await call('GET', `/v1/runs/${run}/events`);
      const types: string[] = log.events.map((event: { type: string }) => event.type);
      const typesOf = async (id: string) =>
        (await deliveriesOf(id)).toSorted((a, b) => a.seq - b.seq).map((each) => each.type);
      assert.deepEqual(await typesOf(all.id), types);
      assert.deepEqual(
        await typesOf(family.id),
        types.filter((each) => each.startsWith('run.')),
      );
      assert.deepEqual(await typesOf(type.id), ['run.cancelled']);
      assert.deepEqual(await typesOf(off.id), []);
      const other = await api.call('GET', `/v1/webhooks/${theirs.json.id}/deliveries`, { key: stranger.key });
      assert.deepEqual(other.json.deliveries, []);
      await sendDueWebhooks(api.context);
      assert.equal(receiver.seen.length, types.length + types.filter((each) => each.startsWith('run.')).length + 1);
    });

    it('are tried again after a failure, with the same id, and again on demand', async () => {
      const { id } = await hook(['run.created']);
      await startRun();
      answer = 500;
      assert.equal(await sendDueWebhooks(api.context), 0);
      const [failing] = await deliveriesOf(id);
      assert.deepEqual([failing?.status, failing?.attempts, failing?.response_status], ['pending', 1, 500]);
      assert.equal(await sendDueWebhooks(api.context), 0, 'not before its time');
      assert.equal(receiver.seen.length, 1);
      answer = 200;
      await letTimePass();
      assert.equal(await sendDueWebhooks(api.context), 1);
      const path = `/v1/webhooks/${id}/deliveries/${failing?.id}/redeliver`;
      const once = { 'idempotency-key': randomUUID() };
      const again = () => api.call('POST', path, { key: tenant.key, body: {}, headers: once });
      assert.equal((await again()).status, 202);
      assert.equal(await sendDueWebhooks(api.context), 1);
      assert.equal((await again()).headers.get('idempotent-replayed'), 'true');
      assert.equal(await sendDueWebhooks(api.context), 0);
      assert.deepEqual(new Set(receiver.seen.map(({ headers }) => headers['webhook-id'])), new Set([failing?.id]));
      assert.equal(receiver.seen.length, 3);
    });

    it('are numbers while they are due and not sent: how many, and how long the first has waited', async () => {
      const read = async () => {
        const { text } = await api.call('GET', '/metrics', { key: null });
        const numberOf = (name: string) => Number(new RegExp(`^drover_webhook_${name} (\\S+)$`, 'm').exec(text)?.[1]);
        return { due: numberOf('deliveries_due'), age: numberOf('delivery_age_seconds') };
      };
      assert.deepEqual(await read(), { due: 0, age: 0 });
      await hook(['run.created']);
      for (let n = 0; n < 3; n += 1) await startRun();
      await letDeliveriesPass(here(), 120);
      const { due, age } = await read();
      assert.equal(due, 3);
      assert.ok(age >= 120 && age < 600, `${age}`);
      answer = 500;
      await sendDueWebhooks(api.context);
      await letDeliveriesPass(here(), 120);
      assert.deepEqual(await read(), { due: 0, age: 0 }, 'the webhook pauses');
      await letTimePass();
      answer = 200;
      assert.equal(await sendDueWebhooks(api.context), 3);
      assert.deepEqual(await read(), { due: 0, age: 0 });
    });

    it('lose nothing to a sender that dies between taking a delivery and noting its end', async () => {
      const { id } = await hook(['run.created']);
      await startRun();
      const taken = await api.context.db.withTenant(tenant.id, (tx) =>
        claimDeliveries(tx, { webhookId: id, limit: 10, leaseMs: 60_000, fields: {} }),
      );
      assert.equal(taken.length, 1);
      assert.equal(await sendDueWebhooks(api.context), 0, 'another one holds it');
      await letDeliveriesPass(here());
      assert.equal(await sendDueWebhooks(api.context), 1);
      assert.equal(receiver.seen[0]?.headers['webhook-id'], taken[0]?.id);
    });

    it('are due again, as before, where the process stops that waits for the answer', async () => {
      const { id } = await hook(['run.created']);
      await startRun();
      answer = NONE;
      const stop = new AbortController();
      const sending = sendWebhook(api.context, { tenantId: tenant.id, webhookId: id }, stop.signal);
      await waitUntil('it is sent', () => receiver.seen.length === 1);
      stop.abort();
      assert.deepEqual(await sending, { delivered: 0, failed: 1 });
      const [delivery] = await deliveriesOf(id);
      assert.deepEqual([delivery?.status, delivery?.attempts, delivery?.error], ['pending', 0, null]);
      answer = 200;
      assert.equal(await sendDueWebhooks(api.context), 1);
    });

    it('are free at once where the process stops before it has begun with them, and have failed as often as before', async () => {
      const { id } = await hook(['run.created']);
      answer = 500;
      await startRun();
      await sendDueWebhooks(api.context);
      await letWebhooksPass(here());
      const take = () => takeDueWebhooks(api.context.db, { perTenant: 5, limit: 100, leaseMs: 60_000 });
      const isTaken = async () => (await take()).some(({ webhook_id }) => webhook_id === id);
      assert.ok(await isTaken());
      await sendWebhook(api.context, { tenantId: tenant.id, webhookId: id }, AbortSignal.abort());
      assert.equal((await call('GET', `/v1/webhooks/${id}`)).json.failures, 1);
      assert.ok(await isTaken());
    });

    it('are due still where the queue takes no job', async () => {
      await hook(['run.created']);
      await startRun();
      const { queues } = api.context;
      const addBulk = () => Promise.reject(new Error('the queue is away'));
      const queue = Object.assign(Object.create(queues.queue('webhooks')), { addBulk });
      const away = { ...api.context, queues: { ...queues, queue: () => queue } };
      await assert.rejects(dispatchWebhooks(away), /the queue is away/);
      assert.equal(await sendDueWebhooks(api.context), 1);
    });

    it('go to one of several senders', async () => {
      await hook(['run.created']);
      for (let n = 0; n < 12; n += 1) await startRun();
      const arrived = await Promise.all(Array.from({ length: 3 }, () => sendDueWebhooks(api.context)));
      assert.equal(
        arrived.reduce((sum, each) => sum + each, 0),
        12,
      );
      assert.equal(new Set(receiver.seen.map(({ headers }) => headers['webhook-id'])).size, 12);
      assert.equal(receiver.seen.length, 12);
    });

    it('do not reach what is not public, and one that is down keeps no other waiting', async () => {
      const inside = await hook(['run.created'], 'http://169.254.169.254/latest');
      const fine = await hook(['run.created']);
      await startRun();
      assert.equal(await sendDueWebhooks(api.context), 1);
      const [refused] = await deliveriesOf(inside.id);
      assert.equal(refused?.status, 'pending');
      assert.ok(refused.error !== null && refused.response_status === null);
      assert.equal((await deliveriesOf(fine.id))[0]?.status, 'delivered');
    });

    it('keep those of other tenants waiting for nothing where a secret cannot be read, and say so', async () => {
      const unreadable = await hook(['run.created']);
      await startRun();
      await loseSecretKeys(here());
      const inTrouble = tenant;
      tenant = await newTenant();
      agent = (await call('POST', '/v1/agents', { name: newName() })).json.id;
      const fine = await hook(['run.created']);
      await startRun();
      assert.equal(await sendDueWebhooks(api.context), 1);
      assert.equal((await deliveriesOf(fine.id))[0]?.status, 'delivered');
      tenant = inTrouble;
      const [waiting] = await deliveriesOf(unreadable.id);
      assert.deepEqual([waiting?.status, waiting?.attempts], ['pending', 1]);
      assert.match(waiting?.error ?? '', /cannot be read/);
    });

    it('wait for a process that knows the channel of their URL, and fail where none comes in all their attempts', async () => {
      const { id } = await hook(['run.created']);
      await startRun();
      await tellThrough(here(), id, 'newer://127.0.0.1/phone');
      await sendDueWebhooks(api.context);
      const [early] = await deliveriesOf(id);
      assert.deepEqual([early?.status, early?.attempts], ['pending', 1]);
      assert.match(early?.error ?? '', /no channel/);
      await tellThrough(here(), id, `${receiver.url}/hook`);
      await letTimePass();
      assert.equal(await sendDueWebhooks(api.context), 1);
      await startRun();
      await tellThrough(here(), id, 'newer://127.0.0.1/phone');
      await setAttempts(here(), LIMITS.webhookAttempts - 1);
      await sendDueWebhooks(api.context);
      const [late] = await deliveriesOf(id);
      assert.deepEqual([late?.status, late?.attempts], ['failed', LIMITS.webhookAttempts]);
    });

    it('are disabled when the endpoint is gone or has failed for days, and give up on a delivery after its attempts', async () => {
      const { id } = await hook(['run.created']);
      await startRun();
      answer = 500;
      await setAttempts(here(), 11);
      await sendDueWebhooks(api.context);
      assert.equal((await deliveriesOf(id))[0]?.status, 'failed');
      assert.equal((await call('GET', `/v1/webhooks/${id}`)).json.status, 'active');
      await failForHours(here(), 73);
      await letTimePass();
      await startRun();
      await sendDueWebhooks(api.context);
      const off = (await call('GET', `/v1/webhooks/${id}`)).json;
      assert.deepEqual([off.status, off.disabled_reason], ['disabled', 'it has failed for too long']);
      const { json } = await call('GET', `/v1/audit?target=${id}&action=webhook.disabled`);
      assert.equal(json.audit.length, 1);
      const on = (await call('PATCH', `/v1/webhooks/${id}`, { status: 'active' })).json;
      assert.deepEqual([on.status, on.disabled_reason], ['active', null]);
      answer = 410;
      await startRun();
      await sendDueWebhooks(api.context);
      assert.equal((await call('GET', `/v1/webhooks/${id}`)).json.disabled_reason, 'the endpoint answered 410');
    });

    it('have arrived where the answer is 2xx, and not with any other, a redirect to nowhere or 304 included', async () => {
      for (const status of [302, 304, 301, 204, 400]) {
        const { id } = await hook(['run.created']);
        await startRun();
        answer = status;
        await sendDueWebhooks(api.context);
        const [delivery] = await deliveriesOf(id);
        const expected = status === 204 ? 'delivered' : 'pending';
        assert.deepEqual([delivery?.status, delivery?.response_status], [expected, status]);
        await call('DELETE', `/v1/webhooks/${id}`);
      }
    });

    it('go on after one that has not arrived, which alone waits, unless three in a row have not', async () => {
      const { id } = await hook(['run.created']);
      const state = async () => (await call('GET', `/v1/webhooks/${id}`)).json;
      const waiting = async () => (await deliveriesOf(id)).filter(({ status }) => status === 'pending').length;
      for (let n = 0; n < 30; n += 1) await startRun();
      for (let n = 0; n < 30; n += 1) answers.push(n % 10 === 3 ? 500 : 200);
      assert.equal(await sendDueWebhooks(api.context), 27);
      assert.deepEqual([(await state()).failures, (await state()).next_at, await waiting()], [0, null, 3]);
      await startRun();
      answers = [500];
      assert.equal(await sendDueWebhooks(api.context), 0);
      assert.deepEqual([(await state()).failures, (await state()).next_at], [1, null]);
      await startRun();
      assert.equal(await sendDueWebhooks(api.context), 1);
      assert.equal((await state()).failures, 0);
      answer = 500;
      for (const failures of [1, 2, 3]) {
        await startRun();
        await sendDueWebhooks(api.context);
        const { next_at, ...shown } = await state();
        assert.deepEqual([shown.failures, next_at !== null], [failures, failures === 3]);
      }
    });

    it('are left alone while nothing arrives, for longer each time, and then asked with one delivery', async () => {
      const { id } = await hook(['run.created']);
      for (let n = 0; n < 12; n += 1) await startRun();
      answer = 500;
      const state = async () => (await call('GET', `/v1/webhooks/${id}`)).json;
      const waits: number[] = [];
      const asked: number[] = [];
      for (let round = 1; round <= 9; round += 1) {
        receiver.seen.length = 0;
        await sendDueWebhooks(api.context);
        asked.push(receiver.seen.length);
        const { failures, next_at } = await state();
        assert.equal(failures, round);
        assert.ok(next_at !== null);
        waits.push(await pauseOfWebhook(here(), id));
        assert.equal(await sendDueWebhooks(api.context), 0, 'not before its time');
        await letTimePass();
      }
      assert.deepEqual(asked, [10, 1, 1, 1, 1, 1, 1, 1, 1]);
      for (const [index, ms] of waits.entries()) {
        assert.ok(ms <= Math.min(1.25 * 5000 * 2 ** index, LIMITS.webhookPauseSeconds * 1000));
      }
      assert.ok((waits.at(-1) ?? 0) > 60_000);
      answer = 200;
      receiver.seen.length = 0;
      assert.equal(await sendDueWebhooks(api.context), 12, 'all that has waited, once one has arrived');
      const after = await state();
      assert.deepEqual([after.failures, after.next_at], [0, null]);
    });

    it('are asked at once when a delivery is sent again by hand, or their URL is another one', async () => {
      const { id } = await hook(['run.created']);
      await startRun();
      answer = 500;
      await sendDueWebhooks(api.context);
      const [{ id: delivery } = { id: '' }] = await deliveriesOf(id);
      await call('POST', `/v1/webhooks/${id}/deliveries/${delivery}/redeliver`, {});
      answer = 200;
      assert.equal(await sendDueWebhooks(api.context), 1);
      answer = 500;
      await startRun();
      await sendDueWebhooks(api.context);
      answer = 200;
      const moved = await call('PATCH', `/v1/webhooks/${id}`, { url: `${receiver.url}/elsewhere` });
      assert.deepEqual([moved.json.failures, moved.json.next_at], [0, null]);
      await startRun();
      assert.equal(await sendDueWebhooks(api.context), 1);
    });

    it('have their turns tenant by tenant, those first that have waited longest, and some of a tenant at a time', async () => {
      const mine: string[] = [];
      for (let n = 0; n < 4; n += 1) mine.push((await hook(['run.created'])).id);
      await startRun();
      const first = tenant;
      tenant = await newTenant();
      agent = (await call('POST', '/v1/agents', { name: newName() })).json.id;
      const theirs = (await hook(['run.created'])).id;
      await startRun();
      const take = async (perTenant: number, limit: number) => {
        const taken = await takeDueWebhooks(api.context.db, { perTenant, limit, leaseMs: 60_000 });
        return taken.map(({ webhook_id }) => webhook_id);
      };
      const round = await take(3, 3);
      assert.ok(round.includes(theirs), 'theirs is among the first');
      assert.equal(round.filter((id) => mine.includes(id)).length, 2);
      assert.deepEqual((await take(3, 10)).length, 1, 'a third one, and no fourth while three are taken');
      assert.deepEqual(await take(3, 10), []);
      tenant = first;
      await freeWebhooks(here());
      const [longest] = await take(1, 10);
      assert.ok(
        longest !== undefined && mine.includes(longest) && !round.includes(longest),
        'the one that had no turn',
      );
    });

    it('are as many as a tenant may have, and no more, also when they are made at the same time', async () => {
      const made = Array.from({ length: LIMITS.webhooksPerTenant + 5 }, () =>
        call('POST', '/v1/webhooks', { url: receiver.url, events: ['*'] }),
      );
      const statuses = (await Promise.all(made)).map(({ status }) => status);
      assert.equal(statuses.filter((status) => status === 201).length, LIMITS.webhooksPerTenant);
      assert.equal(statuses.filter((status) => status === 422).length, 5);
    });

    it('are refused with events that there are not, and gone when they are deleted', async () => {
      const bad = await call('POST', '/v1/webhooks', { url: receiver.url, events: ['run.flown'] });
      assert.deepEqual([bad.status, bad.json.errors[0].path], [400, 'body.events.0']);
      assert.match(
        bad.json.errors[0].message,
        /^is no type or family of events; run has run\.created, .*run\.completed/,
      );
      const far = await call('POST', '/v1/webhooks', { url: receiver.url, events: ['*', 'zebra.flown'] });
      assert.match(far.json.detail, /^body\.events\.1 is no .*; the families are .*\bwait\b/);
      assert.doesNotMatch(far.json.detail, /approval/);
      assert.equal((await call('POST', '/v1/webhooks', { url: 'ftp://x', events: ['*'] })).status, 400);
      const login = await call('POST', '/v1/webhooks', { url: 'https://me:hidden@ops.example', events: ['*'] });
      assert.deepEqual([login.status, login.json.errors[0].path], [400, 'body.url']);
      assert.doesNotMatch(login.text, /hidden/);
      const { id } = await hook(['*']);
      await startRun();
      assert.equal((await call('DELETE', `/v1/webhooks/${id}`)).status, 204);
      assert.equal((await call('GET', `/v1/webhooks/${id}`)).status, 404);
      assert.equal(await sendDueWebhooks(api.context), 0);
    });
  });
}
