import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { Job, Worker } from 'bullmq';
import type { Context } from '../../modules/governance/context.ts';
import { followJobs } from '../../workers/follow-jobs.ts';
import { loadHandlers } from '../../workers/load-handlers.ts';
import { door } from '../support/engine.ts';

describe('What follows a job', () => {
  const begin = async (after: () => Promise<unknown>, isDraining = false) => {
    const [handler] = (await loadHandlers(['consolidation'])).values();
    assert.ok(handler);
    const warned: unknown[] = [];
    const context = { log: { warn: (about: unknown) => warned.push(about) } } as unknown as Context;
    const worker = new EventEmitter();
    const following = followJobs(context, () => isDraining);
    following.follow(worker as unknown as Worker, { ...handler, after });
    worker.emit('completed', { id: 'one' } as Job);
    return { following, warned };
  };

  it('is waited for by whoever stops', async () => {
    const end = door();
    let isOver = false;
    const { following } = await begin(async () => {
      await end.pass();
      isOver = true;
    });
    const idle = following.idle();
    end.open();
    await idle;
    assert.ok(isOver);
  });

  it('is left for reconciliation where it fails, and does not begin where the process stops', async () => {
    const { following, warned } = await begin(() => Promise.reject(new Error('no database')));
    await following.idle();
    assert.equal(warned.length, 1);
    await (await begin(() => assert.fail('it has begun'), true)).following.idle();
  });
});
