import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createAudience } from '../../bus/audience.ts';
import type { BusMessage } from '../../bus/bus.ts';
import { ALL, decodePayload, encodeParcels, type Addressed } from '../../bus/payloads.ts';
import { newId } from '../../lib/new-id.ts';

describe('what is sent to watchers', () => {
  it('reaches each process in the order in which it was said, whoever else has it', () => {
    const to = fc.oneof(fc.constant([ALL]), fc.uniqueArray(fc.constantFrom('a', 'b', 'c'), { minLength: 1 }));
    fc.assert(
      fc.property(fc.array(to, { maxLength: 40 }), fc.integer({ min: 100, max: 400 }), (addresses, maxBytes) => {
        const batch = addresses.map((each, seq): Addressed => ({
          message: { subject: 'r', kind: 'advanced', seq },
          to: each,
        }));
        const parcels = encodeParcels(batch, maxBytes);
        for (const address of ['a', 'b', 'c', 'd']) {
          const isFor = (each: string) => each === ALL || each === address;
          assert.deepEqual(
            parcels.flatMap(({ to: whose, payload }) => (isFor(whose) ? decodePayload(payload) : [])),
            batch.flatMap(({ message, to: whose }) => (whose.some(isFor) ? [message] : [])),
          );
        }
      }),
    );
  });

  it('has its subject as `runId`, as every release reads and sends it', () => {
    const message: BusMessage = { subject: newId(), kind: 'governed' };
    const [parcel] = encodeParcels([{ message, to: [ALL] }], 1000);
    assert.deepEqual(JSON.parse(parcel?.payload ?? '').slice(1), [{ runId: message.subject, kind: 'governed' }]);
    assert.deepEqual(decodePayload(`[1,{"runId":"${message.subject}","kind":"governed"}]`), [message]);
  });

  it('goes to all where a process of an earlier release watches, which says no address', () => {
    const sent: Addressed[] = [];
    const audience = createAudience('own', (addressed) => sent.push(addressed));
    try {
      const subject = newId();
      const piece: BusMessage = {
        subject,
        kind: 'delta',
        turnId: newId(),
        step: 1,
        delta: { type: 'text', text: 'x' },
      };
      audience.hear({ subject: '', kind: 'watched', runs: [subject], by: 'other' });
      audience.publish(piece);
      audience.hear({ subject: '', kind: 'watched', runs: [subject] });
      audience.publish(piece);
      assert.deepEqual(
        sent.map(({ to }) => to),
        [['other'], [ALL]],
      );
    } finally {
      audience.close();
    }
  });

  it('is not sent for what a process has heard of itself, once nobody watches there', () => {
    const sent: Addressed[] = [];
    const audience = createAudience('own', (addressed) => sent.push(addressed));
    try {
      const subject = newId();
      const progress: BusMessage = {
        subject,
        kind: 'progress',
        turnId: newId(),
        callId: newId(),
        tool: 'count',
        progress: 1,
        total: undefined,
        message: undefined,
      };
      const leave = audience.watch(subject);
      audience.hear({ subject: '', kind: 'watched', runs: [subject], by: 'own' });
      audience.publish(progress);
      leave();
      audience.publish(progress);
      assert.deepEqual(
        sent.filter(({ message }) => message.kind === 'progress').map(({ to }) => to),
        [['own']],
      );
    } finally {
      audience.close();
    }
  });
});
