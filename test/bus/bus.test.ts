import assert from 'node:assert/strict';
import type { Bus, BusMessage } from '../../bus/bus.ts';
import { openBus } from '../../bus/open-bus.ts';
import { newId } from '../../lib/new-id.ts';
import type { Database } from '../../db/database.ts';
import { openDatabase } from '../../db/open-database.ts';
import { openServiceProxy, type ServiceProxy } from '../../scripts/kit/service-proxy.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { MODES, TEST_REDIS_URL } from '../support/modes.ts';
import { waitUntil } from '../support/wait-until.ts';
import { terminatingListeners } from '../support/queries/postgres.ts';

function delta(run: string, text: string, at?: number): Extract<BusMessage, { kind: 'delta' }> {
  const place = at === undefined ? {} : { at };
  return { subject: run, kind: 'delta', turnId: newId(), step: 1, delta: { type: 'text', text }, ...place };
}

const textOf = (messages: BusMessage[]) =>
  messages.map((message) => (message.kind === 'delta' ? message.delta.text : '')).join('');

for (const mode of MODES) {
  describe(`the bus in ${mode} mode`, () => {
    let testDatabase: TestDatabase;
    let other: Database;
    let here: Bus;
    /** Another process's, where there can be one. */
    let there: Bus;
    /** Before the Redis that other tests use, too. */
    let redis: ServiceProxy | undefined;
    const errors: Error[] = [];
    const report = (error: Error) => void errors.push(error);

    before(async () => {
      testDatabase = await openTestDatabase(mode);
      other = mode === 'embedded' ? testDatabase.database : await openDatabase(testDatabase.config);
      redis = mode === 'full' ? await openServiceProxy(TEST_REDIS_URL ?? '') : undefined;
      const config = redis ? { ...testDatabase.config, redisUrl: redis.url } : testDatabase.config;
      here = await openBus(config, testDatabase.database, report);
      there = mode === 'embedded' ? here : await openBus(config, other, report);
    });

    after(async () => {
      await here.close();
      await there.close();
      await redis?.close();
      if (other !== testDatabase.database) await other.close();
      await testDatabase.close();
    });

    /** Watches a run from there, and is back when that is known here. */
    async function watchThere(run: string, onDelta: (message: BusMessage) => void): Promise<() => void> {
      const stop = there.watch(run, (message) => message.kind === 'delta' && onDelta(message));
      let isKnown = false;
      const forget = here.subscribe(run, () => (isKnown = true));
      // What a process sends arrives in order.
      there.publish({ subject: run, kind: 'advanced', seq: 1 });
      await waitUntil('what is watched is known', () => isKnown);
      forget();
      return stop;
    }

    it('carries messages of a run to its subscribers in every process, in order, and to no others', async () => {
      const run = newId();
      const seen: BusMessage[] = [];
      const own: BusMessage[] = [];
      const strange: BusMessage[] = [];
      there.subscribe(run, (message) => seen.push(message));
      here.subscribe(run, (message) => own.push(message));
      there.subscribe(newId(), (message) => strange.push(message));
      const sent: BusMessage[] = [
        { subject: run, kind: 'advanced', seq: 1 },
        { subject: run, kind: 'abort', reason: 'cancel' },
        ...Array.from({ length: 300 }, (_, seq): BusMessage => ({ subject: run, kind: 'advanced', seq })),
      ];
      for (const message of sent) here.publish(message);
      await waitUntil('all messages', () => seen.length === sent.length && own.length === sent.length);
      assert.deepEqual(seen, sent);
      assert.deepEqual(own, sent);
      assert.deepEqual(strange, []);
    });

    it('carries pieces of an answer only where somebody watches, wherever that is', async () => {
      const run = newId();
      const unseen: BusMessage[] = [];
      there.subscribe(run, (message) => unseen.push(message));
      here.publish(delta(run, 'to nobody'));
      here.publish({ subject: run, kind: 'advanced', seq: 1 });
      await waitUntil('what is not for watchers alone', () => unseen.length > 0);
      assert.deepEqual(unseen, [{ subject: run, kind: 'advanced', seq: 1 }]);

      const seen: BusMessage[] = [];
      here.publish(delta(run, 'in time ', 0));
      const stop = await watchThere(run, (message) => seen.push(message));
      here.publish(delta(run, 'for somebody', 8));
      await waitUntil('the pieces', () => seen.length > 1);
      assert.equal(textOf(seen), 'in time for somebody', 'what was said before the last commit is in the log');

      here.publish(delta(run, 'all ', 0));
      await waitUntil('the next answer', () => seen.length > 2);
      const later: BusMessage[] = [];
      const stopLater = there.watch(run, (message) => later.push(message));
      here.publish(delta(run, 'of it', 4));
      await waitUntil('it', () => seen.length > 3 && textOf(later).length >= 9);
      assert.equal(textOf(later), 'all of it', 'it is told from its beginning to who comes later');
      assert.equal(textOf(seen.slice(2)), 'all of it', 'nothing is told twice');
      stop();
      stopLater();
      stop();
      const last: BusMessage[] = [];
      const stopLast = there.watch(run, (message) => last.push(message));
      await waitUntil('it, where somebody has watched before', () => textOf(last) === 'all of it');
      stopLast();
    });

    if (mode !== 'embedded') {
      it('sends pieces of an answer to no process where nobody watches, and keeps their order among all others', async () => {
        const run = newId();
        const third = await openBus(testDatabase.config, other, report);
        const unseen: BusMessage[] = [];
        const seen: BusMessage[] = [];
        third.subscribe(run, (message) => unseen.push(message));
        const stop = await watchThere(run, () => undefined);
        await waitUntil('what told that it is watched', () => unseen.length === 1);
        there.subscribe(run, (message) => seen.push(message));
        const sent = Array.from({ length: 60 }, (_, n): BusMessage =>
          n % 4 === 3 ? { subject: run, kind: 'advanced', seq: n } : delta(run, String(n)),
        );
        for (const message of sent) here.publish(message);
        here.publish({ subject: run, kind: 'governed' });
        await waitUntil('the last one', () => seen.length === 61 && unseen.at(-1)?.kind === 'governed');
        assert.deepEqual(seen.slice(0, 60), sent);
        assert.deepEqual(
          unseen.slice(1, -1),
          sent.filter(({ kind }) => kind === 'advanced'),
        );
        stop();
        await third.close();
      });
    }

    it('tells steps in the middle of a turn to watchers alone, and who comes later how far it is', async () => {
      const run = newId();
      const unseen: BusMessage[] = [];
      there.subscribe(run, (message) => unseen.push(message));
      const step = (seq: number): BusMessage => ({ subject: run, kind: 'advanced', seq, isWorking: true });
      here.publish(step(1));
      here.publish(step(2));
      const piece = delta(run, 'of the next step', 0);
      here.publish(piece);
      here.publish({ subject: run, kind: 'governed' });
      await waitUntil('what is not for watchers alone', () => unseen.length > 0);
      assert.deepEqual(unseen, [{ subject: run, kind: 'governed' }]);

      const seen: BusMessage[] = [];
      const stop = there.watch(run, (message) => seen.push(message));
      await waitUntil('what was held', () => seen.length > 1);
      here.publish(step(3));
      await waitUntil('the next step', () => seen.length > 2);
      assert.deepEqual(seen, [step(2), piece, step(3)]);
      stop();
    });

    it('tells a process that starts what is watched', async () => {
      const run = newId();
      let seen = 0;
      const stop = there.watch(run, () => (seen += 1));
      const late = mode === 'embedded' ? here : await openBus(testDatabase.config, other, report);
      await waitUntil('a piece of an answer', () => {
        late.publish(delta(run, 'again'));
        return seen > 0;
      });
      stop();
      if (late !== here) await late.close();
    });

    it('does not call subscribers while the publisher is still at work', async () => {
      const run = newId();
      let calls = 0;
      here.subscribe(run, () => (calls += 1));
      here.publish({ subject: run, kind: 'advanced', seq: 1 });
      assert.equal(calls, 0);
      await waitUntil('the message', () => calls === 1);
    });

    it('carries a delta of any length, whole characters at a time', async () => {
      const run = newId();
      const seen: BusMessage[] = [];
      await watchThere(run, (message) => seen.push(message));
      const text = '"🐑\n'.repeat(20_000) + 'x'.repeat(50_000);
      here.publish({ ...delta(run, text), at: 7 });
      await waitUntil('the whole text', () => textOf(seen).length >= text.length);
      assert.equal(textOf(seen), text);
      let at = 7;
      for (const message of seen) {
        assert.ok(message.kind === 'delta' && message.at === at, 'a piece does not say where it stands');
        at += message.delta.text.length;
      }
      assert.ok(
        seen.every(
          (message) => message.kind === 'delta' && Buffer.from(message.delta.text).toString() === message.delta.text,
        ),
      );
    });

    it('carries a piece of a call of any length, of which each part says where it stands', async () => {
      const run = newId();
      let told = '';
      const stop = there.watch(run, (message) => {
        if (message.kind !== 'call_piece' || message.at !== told.length + 3) return;
        told += message.text;
      });
      await watchThere(run, () => undefined);
      const text = '"🐑\\n'.repeat(20_000);
      const call = { turnId: newId(), step: 1, callId: newId(), place: 0, tool: 'write', after: 0 };
      here.publish({ subject: run, kind: 'call_piece', ...call, text, at: 3 });
      await waitUntil('all of it', () => told.length >= text.length);
      assert.equal(told, text);
      stop();
    });

    it('delivers equal messages as often as they were sent', async () => {
      const run = newId();
      const seen: BusMessage[] = [];
      await watchThere(run, (message) => seen.push(message));
      const same = delta(run, 'ha');
      for (let i = 0; i < 500; i++) here.publish(same);
      await waitUntil('all of them', () => seen.length === 500);
    });

    it('stops with the subscription', async () => {
      const run = newId();
      const seen: number[] = [];
      const stop = there.subscribe(run, () => seen.push(1));
      there.subscribe(run, () => seen.push(2));
      stop();
      here.publish({ subject: run, kind: 'advanced', seq: 1 });
      await waitUntil('the other subscriber', () => seen.length > 0);
      assert.deepEqual(seen, [2]);
    });

    it('goes on when a subscriber throws, and tells it', async () => {
      const run = newId();
      let calls = 0;
      errors.length = 0;
      there.subscribe(run, () => {
        throw new Error('clumsy');
      });
      there.subscribe(run, () => (calls += 1));
      here.publish({ subject: run, kind: 'advanced', seq: 1 });
      await waitUntil('the other subscriber', () => calls === 1);
      assert.deepEqual(
        errors.map((error) => error.message),
        ['clumsy'],
      );
    });

    if (mode !== 'embedded') {
      it('tells of a gap when its connection was lost, and carries messages again', async () => {
        let gaps = 0;
        there.onGap(() => (gaps += 1));
        await redis?.cut();
        await redis?.restore();
        if (!redis) await testDatabase.admin(terminatingListeners(testDatabase.config.databaseUrl));
        await waitUntil('the gap', () => gaps > 0);
        const run = newId();
        let calls = 0;
        there.subscribe(run, () => (calls += 1));
        // The publisher's own connection may be away a little longer; what it sends meanwhile is lost, as it may be.
        await waitUntil('a message after the gap', () => {
          here.publish({ subject: run, kind: 'advanced', seq: 1 });
          return calls > 0;
        });
      });
    }
  });
}
