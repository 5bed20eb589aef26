import assert from 'node:assert/strict';
import { LIMITS } from '../../../core/limits.ts';
import type { AgentDefinition } from '../../../core/definition.ts';
import { createEmbeddings } from '../../../llm/embeddings.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { replayRecorded } from '../../support/recorded-replay.ts';
import type { AnthropicRequest } from '../../support/fake-anthropic.ts';
import { forNobody, unpaid } from '../../support/unpaid-embeddings.ts';
import { waitUntil } from '../../support/wait-until.ts';

const QUESTIONS = [
  'Where are battles happening right now?',
  'Create a shopping list for ten Caracals',
  'What skills do I need for drones?',
  'How far is it from Jita to Amarr?',
  'Bookmark this solar system for me',
  'Which ore has the most Tritanium?',
  'How much cargo fits into an Iteron?',
  'Who owns the sovereignty of Delve?',
  'List my research agents',
  'Show my industry jobs',
  'Which blueprints do I own?',
  'What is the balance of my wallet?',
];
/** Shares no word with the last one. */
const BY_MEANING = 'How much money have I got?';
const LAST = QUESTIONS.length - 1;

describe('Worked examples of a turn', () => {
  let engine: Engine;
  let agent: string;
  const system_prompt: AgentDefinition['system_prompt'] = {
    role: 'A pilot',
    examples: QUESTIONS.map((question, n) => ({
      question,
      steps: [{ tool: `tool_${n}`, input: {} }],
      answer: 'Done.',
    })),
  };
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());
  beforeEach(async () => {
    engine.say(() => text('noted'));
    agent = await engine.agent({ system_prompt, tools: ['calculator'] });
  });

  const systems = () => engine.model.requests.map(({ body }) => JSON.stringify((body as AnthropicRequest).system));
  const places = (system = '') => QUESTIONS.flatMap((question, place) => (system.includes(question) ? [place] : []));
  const logged = async (run: string) =>
    (await engine.log(run)).flatMap((event) => (event.type === 'model.called' ? [event.payload.examples] : []));
  const ask = async (message: string) => {
    const { run } = await engine.start(agent, message);
    await engine.finish(run);
    return run;
  };
  const vectorsAreThere = () =>
    waitUntil('the examples have their vectors', async () => {
      const { signal } = new AbortController();
      const texts = QUESTIONS;
      return (
        (await engine.context.embeddings.compare('offline', { texts, question: 'x', signal, payer: forNobody })) !==
        undefined
      );
    });
  const without = (context: Context): Context => {
    return { ...context, embeddings: createEmbeddings({ embeddingModel: 'off', modelKeys: {} }, unpaid) };
  };

  it('are chosen by words until their vectors are there, then by meaning too, and stand in the log', async () => {
    engine.context.embeddings = createEmbeddings({ embeddingModel: 'offline', modelKeys: {} }, unpaid);
    const before = await ask(BY_MEANING);
    assert.equal(places(systems()[0]).includes(LAST), false, 'no word of it is in the question');
    await vectorsAreThere();
    const after = await ask(BY_MEANING);
    const shown = places(systems()[1]);
    assert.deepEqual([shown.length, shown.includes(LAST)], [LIMITS.examplesShown, true]);
    assert.deepEqual([await logged(before), await logged(after)], [[places(systems()[0])], [shown]]);
  });

  it('stay the same in a turn, also where a process without vectors goes on with it, and in a recorded replay', async () => {
    await vectorsAreThere();
    agent = await engine.agent({ system_prompt }, [{ name: 'bank' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'bank') }) : text('much')));
    const { run } = await engine.start(agent, BY_MEANING);
    await engine.drive(run);
    assert.equal(systems().length, 1);
    await engine.everyoneDies();
    await engine.makeCalls(run);
    await engine.drive(run, without(engine.context));
    const [first, second] = systems();
    assert.ok(places(first).includes(LAST));
    assert.equal(second, first);

    engine.say([]);
    const replayed = await replayRecorded(engine, run, { context: without(engine.context) });
    await engine.drive(replayed, without(engine.context));
    assert.equal(engine.model.requests.length, 0, 'the record has answered');
    assert.deepEqual(await logged(replayed), await logged(run));
  });

  it('are all shown where there are no more than so many, and then no event names them', async () => {
    const examples = QUESTIONS.slice(0, LIMITS.examplesShown);
    agent = await engine.agent({ system_prompt: { role: 'A pilot', examples } });
    const run = await ask('Show my industry jobs');
    assert.deepEqual([places(systems()[0]), await logged(run)], [examples.map((_, place) => place), [undefined]]);
  });
});
