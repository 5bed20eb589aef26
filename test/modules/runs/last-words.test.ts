/** What a turn is left with whose budget is used up in the middle. */
import assert from 'node:assert/strict';
import type { AnthropicReply } from '../../support/fake-anthropic.ts';
import { openEngine, use, type Engine } from '../../support/engine.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { storedRun } from '../../support/queries/runs.ts';

const LOOK = use({ name: 'calculator', input: { expression: '1 + 1' } });
const SAID: AnthropicReply = { ...LOOK, content: [{ type: 'text', text: 'I look.' }, ...(LOOK.content ?? [])] };

describe('A turn whose budget is used up', () => {
  let engine: Engine;
  let agent: string;
  before(async () => {
    engine = await openEngine(DOMAIN_MODE);
    agent = await engine.agent({ tools: ['calculator'] });
  });
  after(() => engine.close());

  const endOf = async (...answers: AnthropicReply[]) => {
    engine.say(answers);
    const { run } = await engine.start(agent, 'Look.', { config: { budget: { max_steps: answers.length } } });
    await engine.finish(run);
    const { status, stop_reason, error } = await storedRun(engine, run);
    const [end] = (await engine.log(run)).filter(({ type }) => type === 'turn.completed');
    return [status, stop_reason, error?.code, end?.type === 'turn.completed' ? end.payload.ordinal : undefined];
  };

  it('has failed where the model has said nothing', async () => {
    assert.deepEqual(await endOf(LOOK, LOOK), ['failed', 'budget', 'budget', undefined]);
  });

  it('ends with what the model has said last, which may be some answers ago', async () => {
    assert.deepEqual(await endOf(SAID, LOOK), ['completed', 'budget', undefined, 1]);
  });
});
