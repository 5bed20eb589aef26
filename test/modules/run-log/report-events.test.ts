import assert from 'node:assert/strict';
import { z } from 'zod';
import { LIMITS } from '../../../core/limits.ts';
import { NO_TOKENS } from '../../../core/model.ts';
import { askForTool, type ToolAsk } from '../../../modules/model-calls/ask-for-tool.ts';
import { countSpending } from '../../../modules/model-calls/count-spending.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { replayRecorded } from '../../support/recorded-replay.ts';
import { statusOfRun } from '../../support/queries/runs.ts';

const HAIKU = 'claude-haiku-4-5';

describe('the numbers of calls', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  /** The values of the metrics whose name begins so, those that have grown since. */
  const numbers = async (prefix: string): Promise<Map<string, number>> => {
    const metrics = await engine.context.metrics.registry.getMetricsAsJSON();
    const values = metrics.flatMap(({ name, values: all }) =>
      all.map((value) => {
        const { metricName = name, labels, value: number } = value as Numbered;
        return [`${metricName} ${Object.values(labels).join(' ')}`.trim(), number] as const;
      }),
    );
    return new Map(values.filter(([name]) => name.startsWith(prefix)));
  };
  const grown = async (prefix: string, work: () => Promise<unknown>): Promise<Record<string, number>> => {
    const before = await numbers(prefix);
    await work();
    const after = [...(await numbers(prefix))].map(([name, n]) => [name, n - (before.get(name) ?? 0)] as const);
    return Object.fromEntries(after.filter(([, by]) => by > 0));
  };

  const ask = (more: Partial<ToolAsk<object>> = {}) =>
    askForTool(engine.context, {
      tenantId: engine.tenantId,
      workspaceId: engine.platform.workspaceId,
      purpose: 'title',
      models: [`anthropic/${HAIKU}`],
      tool: { name: 'name_it', description: 'Names it.', arguments: z.object({}) },
      system: 'Name it.',
      messages: [{ role: 'user', content: [{ type: 'text', text: 'It.' }] }],
      signal: new AbortController().signal,
      ...more,
    });

  it('have those that Drover makes for itself, each attempt, with all their tokens', async () => {
    const usage = { input_tokens: 10, output_tokens: 3, cache_read_input_tokens: 5, cache_creation_input_tokens: 7 };
    const overloaded = { error: { status: 529, type: 'overloaded_error', headers: { 'retry-after-ms': '0' } } };
    engine.say([overloaded, { ...use({ name: 'name_it' }), usage }]);
    const by = await grown('drover_model_', async () => assert.ok('arguments' in (await ask())));
    assert.equal(by['drover_model_calls_total succeeded'], 1);
    assert.equal(by['drover_model_calls_total failed overloaded'], 1);
    assert.equal(by['drover_model_call_duration_seconds_count succeeded'], 1);
    const tokens = ['input', 'output', 'cache_read', 'cache_write'].map(
      (kind) => by[`drover_model_tokens_total ${HAIKU} ${kind}`],
    );
    assert.deepEqual(tokens, [10, 3, 5, 7]);
  });

  it('have none that a recorded replay answers from its record, nor log its failures again', async () => {
    const agent = await engine.agent({ tools: ['calculator'] }, [{ name: 'note' }]);
    engine.say((request, n) => {
      const sums = { name: 'calculator', input: { expression: '1 +' } };
      return n === 0 ? use({ name: offered(request, 'note') }, sums) : text('noted');
    });
    const { run } = await engine.start(agent, 'note it');
    const made = await grown('drover_', () => engine.finish(run));
    assert.equal(made['drover_model_calls_total succeeded'], 2);
    assert.equal(made['drover_tool_calls_total succeeded'], 1);
    const again = await replayRecorded(engine, run);
    const replayed = await grown('drover_', () => engine.finish(again));
    assert.equal(await statusOfRun(engine, again), 'completed');
    assert.equal(replayed['drover_runs_total completed'], 1);
    assert.deepEqual(
      Object.keys(replayed).filter((name) => /^drover_(model|tool)_call/.test(name)),
      [],
    );
  });

  it('have series of their own for models with a price and for so many others, and one for all the rest', async () => {
    const { metrics } = engine.context;
    const count = (model: string) =>
      countSpending({ metrics }, { provider: 'anthropic', model, usage: { ...NO_TOKENS, input: 1 }, cost: null });
    const by = await grown('drover_model_tokens_total', async () => {
      for (let n = 0; n < 2 * LIMITS.modelSeries; n++) count(`odd-${n}`);
      for (const model of ['claude-opus-4-1', 'odd-0']) count(model);
    });
    const [other = 0, odd0, opus] = ['other', 'odd-0', 'claude-opus-4-1'].map(
      (model) => by[`drover_model_tokens_total ${model} input`],
    );
    assert.deepEqual([odd0, opus], [2, 1]);
    assert.ok(other >= LIMITS.modelSeries);
    assert.equal(Object.keys(by).length - 2, 2 * LIMITS.modelSeries - other);
  });
});

interface Numbered {
  metricName?: string;
  labels: Record<string, string>;
  value: number;
}
