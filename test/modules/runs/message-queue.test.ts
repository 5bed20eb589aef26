import assert from 'node:assert/strict';
import { newId } from '../../../lib/new-id.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { openEngine, text, type Engine } from '../../support/engine.ts';
import { conversationRequests } from '../../support/fake-anthropic.ts';
import { sayToRun } from '../../support/say-to-run.ts';

describe('The message that waits begins the next turn,', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  const queue = (run: string, message: string) => sayToRun(engine, run, { mode: 'queue', input: { message } });

  /** What the model was told turn by turn, where these messages come each just before a commit that ends the first turn. */
  async function toldWith(early: readonly string[], late: readonly string[]): Promise<string[]> {
    const agent = await engine.agent({ name: newId() });
    engine.say([text('one'), text('two'), text('three')]);
    const { run } = await engine.start(agent, 'go', { config: { keep_open: true } });
    for (const message of early) await queue(run, message);
    const { context } = engine;
    const coming = [...late];
    const commit: Context['commit'] = async (change) => {
      const message = change.events.some(({ type }) => type === 'turn.completed') && coming.shift();
      if (message) await queue(run, message);
      return context.commit(change);
    };
    await engine.drive(run, { ...context, commit });
    assert.deepEqual(coming, []);
    const { differences } = await rebuildProjections(context.db, { check: true });
    assert.deepEqual(differences, []);
    return conversationRequests(engine.model).map(({ body }) => JSON.stringify(body.messages.at(-1)));
  }

  const cases: readonly [string, string[], string[]][] = [
    ['where it came before the turn has ended', ['last'], []],
    ['where it comes while the end is about to be committed', [], ['last']],
    ['the newest one, where it comes while the end is about to be committed with another', ['first'], ['last']],
    ['the newest one, where several come one after the other, each before a commit', [], ['first', 'second', 'last']],
  ];
  for (const [title, early, late] of cases) {
    it(title, async () => {
      const [first = '', second = '', ...others] = await toldWith(early, late);
      assert.match(first, /go/);
      assert.match(second, /last/);
      assert.deepEqual(others, [], 'what was replaced begins no turn');
    });
  }
});
