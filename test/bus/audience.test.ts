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
      const { leave } = audience.watch(subject);
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

  it('is the answer from its first piece on for each watcher, whenever and wherever it comes, and no piece twice', () => {
    const process = fc.nat({ max: 2 });
    const step = fc.oneof(
      {
        weight: 4,
        arbitrary: fc.record({ kind: fc.constant('say' as const), text: fc.constantFrom('a', 'bc', 'def') }),
      },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant('watch' as const), process }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('leave' as const), process }) },
      { weight: 6, arbitrary: fc.record({ kind: fc.constant('deliver' as const), from: process }) },
      { weight: 1, arbitrary: fc.constant({ kind: 'restart' as const }) },
    );
    fc.assert(
      fc.property(fc.array(step, { minLength: 10, maxLength: 60, size: 'max' }), (steps) => {
        const world = simulateProcesses(3);
        try {
          for (const each of steps) world.take(each);
          world.deliverAll();
          for (const { text, restarts } of world.watchers()) {
            assert.equal(text, world.answer());
            assert.ok(restarts <= world.restarts(), 'only who was told of a former answer is told that it begins anew');
          }
        } finally {
          world.close();
        }
      }),
      { numRuns: 300 },
    );
  });
});

type Taken =
  | { kind: 'say'; text: string }
  | { kind: 'watch' | 'leave'; process: number }
  | { kind: 'deliver'; from: number }
  | { kind: 'restart' };

interface Watcher {
  text: string;
  restarts: number;
  leave: () => void;
}

/** Processes of which the first writes an answer; what each sends arrives everywhere in its order, some time later. */
function simulateProcesses(count: number) {
  const [subject, turnId] = [newId(), newId()];
  const ways: Addressed[][] = [];
  const watchers: Watcher[][] = [];
  const audiences = Array.from({ length: count }, (_, n) => {
    const way: Addressed[] = [];
    ways.push(way);
    watchers.push([]);
    return createAudience(`p${n}`, (addressed) => way.push(addressed));
  });
  let [text, restarts] = ['', 0];
  const show = (watcher: Watcher, message: BusMessage) => {
    if (message.kind !== 'delta') return;
    if (message.at === 0 && watcher.text !== '') {
      watcher.restarts += 1;
      watcher.text = '';
    }
    if (message.at === watcher.text.length) watcher.text += message.delta.text;
  };
  const deliver = (from: number) => {
    const { message, to } = ways[from]?.shift() ?? {};
    if (!message || !to) return;
    audiences.forEach((audience, n) => {
      if (!to.includes(ALL) && !to.includes(`p${n}`)) return;
      if (message.kind === 'watched' || message.kind === 'who_watches') return audience.hear(message);
      const heard = audience.receive(message);
      if (heard) watchers[n]?.forEach((watcher) => show(watcher, heard));
    });
  };
  const say = (more: string) => {
    audiences[0]?.publish({
      subject,
      kind: 'delta',
      turnId,
      step: 1,
      at: text.length,
      delta: { type: 'text', text: more },
    });
    text += more;
  };
  return {
    take(step: Taken): void {
      if (step.kind === 'say') return say(step.text);
      if (step.kind === 'deliver') return deliver(step.from);
      if (step.kind === 'restart') {
        if (text !== '') restarts += 1;
        text = '';
        return say(`${restarts}`);
      }
      if (step.kind === 'leave') return watchers[step.process]?.shift()?.leave();
      const audience = audiences[step.process];
      if (!audience) return;
      const { earlier, leave } = audience.watch(subject);
      const watcher: Watcher = { text: '', restarts: 0, leave };
      for (const piece of earlier) show(watcher, piece);
      watchers[step.process]?.push(watcher);
    },
    deliverAll(): void {
      while (ways.some((way) => way.length > 0)) ways.forEach((_, from) => deliver(from));
    },
    answer: () => text,
    restarts: () => restarts,
    watchers: () => watchers.flat(),
    close: () => audiences.forEach((audience) => audience.close()),
  };
}
