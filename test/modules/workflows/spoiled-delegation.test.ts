import assert from 'node:assert/strict';
import { newId } from '../../../lib/new-id.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { lookNow } from '../../support/workflows.ts';
import { delegationsOf, raiseCost } from '../../support/queries/tool-calls.ts';

describe('A delegation that cannot be begun', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  it('fails by itself, and the others of the same answer are begun', async () => {
    const worker = `worker ${newId()}`;
    await engine.agent({ name: worker });
    const boss = await engine.agent({ name: newId(), tools: ['delegate'] });
    const part = (description: string) => ({ name: 'delegate', input: { description, agent: worker } });
    engine.say([use(part('one'), part('two')), text('done')]);
    const { run } = await engine.start(boss, 'two parts');
    assert.equal(await engine.drive(run), 'dormant');
    // As a build took it that had no limit for it.
    await raiseCost(engine, run, { place: 0, tokens: 1e16 });
    await lookNow(engine.context, { tenantId: engine.tenantId, runId: run });
    const calls = await delegationsOf(engine, run);
    assert.deepEqual(
      calls.map(({ status, code }) => [status, code]),
      [
        ['failed', 'internal'],
        ['running', null],
      ],
    );
    assert.equal(calls[1]?.children, 1);
  });
});
