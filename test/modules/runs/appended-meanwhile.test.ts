import assert from 'node:assert/strict';
import type { Context } from '../../../modules/governance/context.ts';
import { postSignal } from '../../../modules/waits/post-signal.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';

describe('What a driver has not committed yet', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  const typesOf = async (run: string) => (await engine.log(run)).map(({ type }) => type);

  it('is committed once where a commit that was given up for lost arrives after the look for it', async () => {
    const agent = await engine.agent({ tools: ['calculator'] });
    engine.say([use({ name: 'calculator', input: { expression: '6*7' } }), text('42')]);
    const { run } = await engine.start(agent, 'What is 6*7?');
    const { context } = engine;
    let late: (() => Promise<unknown>) | undefined;
    let arrived = false;
    const commit: Context['commit'] = async (change) => {
      const isAnswer = change.events.some(({ type }) => type === 'model.responded');
      if (isAnswer && !late) {
        late = () => context.commit(change);
        throw Object.assign(new Error('gone'), { code: 'ECONNRESET' });
      }
      // The look for it has found nothing, and this is the retry.
      if (isAnswer && late && !arrived) {
        arrived = true;
        await late();
      }
      return context.commit(change);
    };
    assert.equal(await engine.drive(run, { ...context, commit }), 'dormant');
    assert.ok(arrived);
    const types = await typesOf(run);
    assert.equal(types.filter((type) => type === 'model.responded').length, 2);
    assert.equal(types.at(-1), 'turn.completed');
    assert.equal(engine.model.requests.length, 2);
    const { differences } = await rebuildProjections(context.db, { check: true });
    assert.deepEqual(differences, []);
  });

  it('is shown to the model where a call ends unknown while others append', async () => {
    const agent = await engine.agent({ execution_config: { on_unknown: 'tell_model' } }, [
      { name: 'charge', execution: { inline: true } },
    ]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'charge') }) : text('I will look into it')));
    const { run } = await engine.start(agent, 'charge it');
    engine.toolsAnswer(async () => {
      await postSignal(engine.context, { tenantId: engine.tenantId, runId: run, type: 'user', payload: 'early' });
      return { status: 502, body: {} };
    });
    await engine.finish(run);
    const types = await typesOf(run);
    assert.ok(types.indexOf('signal.received') < types.indexOf('tool.unknown'), types.join(' '));
    assert.equal(engine.model.requests.length, 2);
    assert.match(JSON.stringify(engine.model.requests[1]?.body), /The outcome of this call is unknown/);
  });
});
