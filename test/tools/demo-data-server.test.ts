import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import type { Message } from '../../core/content.ts';
import type { ToolDefinition } from '../../core/tool.ts';
import { offlineModel } from '../../llm/offline.ts';
import { COLUMNS, COMPARISONS, datasetId, loadCars, matches, readDatasetId } from '../../scripts/demo-cars.ts';
import { readEffects } from '../../scripts/demo-effects.ts';
import { createEgress } from '../../tools/egress.ts';
import { createTools } from '../../tools/execute-tool.ts';
import type { Tools } from '../../tools/execute-tool.ts';
import { createArgumentValidator } from '../../tools/validate-arguments.ts';
import {
  FUEL_EXAMPLE,
  FUEL_QUESTION,
  fuelAnswer,
  PUBLISH_EXAMPLE,
  PUBLISH_QUESTION,
  publishAnswer,
} from '../support/demo-question.ts';
import { programOf } from '../support/processes.ts';
import { attemptOf, briefly, messageOf, outputOf, toolOf } from '../support/tool-attempt.ts';
import { waitUntil } from '../support/wait-until.ts';

const { validateArguments } = createArgumentValidator();

describe("the demo's MCP server", () => {
  let folder: string;
  let tools: Tools;
  let imported: ToolDefinition[];
  let effects: string;

  const start = async (env: Record<string, string>) => {
    tools = createTools({ egress: createEgress({ allow: [], allowLoopback: false }), stdioCommands: 'any' });
    const listed = await tools.listTools(
      'tenant-1',
      {
        type: 'mcp_stdio',
        command: process.execPath,
        args: await programOf('scripts/demo-data-server.ts'),
        env: { DEMO_EFFECTS_FILE: effects, ...env },
      },
      true,
    );
    imported = listed.map((tool) => ({ ...toolOf(tool.transport), ...tool }));
  };
  // One server for all: a start takes a second.
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'drover-demo-'));
    effects = join(folder, 'effects');
    await start({ DEMO_PUBLISH_DELAY_MS: '0' });
  });
  beforeEach(() => rmSync(effects, { force: true }));
  after(async () => {
    await tools.close();
    rmSync(folder, { recursive: true });
  });

  const named = (name: string) => imported.find((tool) => tool.name === name) ?? assert.fail(`no tool ${name}`);
  const call = (name: string, args: Record<string, unknown>, more = {}) =>
    tools.execute(named(name), attemptOf(args, more));
  const output = async (name: string, args: Record<string, unknown>) =>
    outputOf(await call(name, args)) as Record<string, unknown>;

  /** Lets the offline planner answer a question as an agent would, and returns its answer and its calls. */
  const ask = async (question: string) => {
    const messages: Message[] = [{ role: 'user', content: [{ type: 'text', text: question }] }];
    const calls: string[] = [];
    for (let step = 0; step < 10; step += 1) {
      const response = await offlineModel()(
        {
          model: 'offline',
          system: '',
          messages,
          tools: imported,
          toolChoice: 'auto',
          maxTokens: 4096,
          examples: [FUEL_EXAMPLE, PUBLISH_EXAMPLE],
        },
        { signal: new AbortController().signal, onDelta: () => undefined },
      );
      messages.push({ role: 'assistant', content: response.content });
      const use = response.content.find((block) => block.type === 'tool_use');
      if (!use) return { answer: JSON.stringify(response.content), calls };
      calls.push(use.name);
      assert.deepEqual(validateArguments(named(use.name).input_schema, use.input), []);
      const content = JSON.stringify(await output(use.name, use.input));
      messages.push({ role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content }] });
    }
    return assert.fail('no answer after ten steps');
  };

  it('describes its tools: three that only read, one that is idempotent', () => {
    assert.deepEqual(
      imported.map(({ name, risk_level, annotations }) => [name, risk_level, annotations.idempotentHint]),
      [
        ['filter_rows', 'READ_ONLY', true],
        ['aggregate', 'READ_ONLY', true],
        ['compare', 'READ_ONLY', true],
        ['publish_report', 'WRITE_LOW_RISK', true],
      ],
    );
    for (const tool of imported) assert.ok(tool.description.length > 100, tool.name);
  });

  it("lets the offline planner answer the demo's question rightly, in five dependent calls", async () => {
    const { answer, calls } = await ask(FUEL_QUESTION);
    const right = fuelAnswer(4);
    assert.deepEqual(calls, ['filter_rows', 'aggregate', 'filter_rows', 'aggregate', 'compare']);
    for (const part of Object.values(right)) assert.ok(answer.includes(String(part)), `${part} in ${answer}`);
    assert.match(answer, new RegExp(`${right.region}: its ${right.cars} 4-cylinder cars averaged ${right.mean} `));
  });

  for (const cylinders of [3, 5, 6, 8]) {
    it(`answers the same question about ${cylinders} cylinders rightly`, async () => {
      const { answer } = await ask(FUEL_QUESTION.replace('4-', `${cylinders}-`));
      const right = fuelAnswer(cylinders);
      for (const part of Object.values(right)) assert.ok(answer.includes(String(part)), `${part} in ${answer}`);
    });
  }

  it('publishes the right numbers, once', async () => {
    const { answer, calls } = await ask(PUBLISH_QUESTION);
    assert.deepEqual(calls, ['filter_rows', 'aggregate', 'publish_report']);
    const right = publishAnswer('Japan');
    const published = readEffects(effects);
    assert.equal(published.length, 1);
    assert.match(published[0]?.text ?? '', new RegExp(`The ${right.cars} cars from Japan average ${right.mean} `));
    assert.match(answer, /Published as report-/);
  });

  it('knows a selection by its id after it was started again', async () => {
    const { dataset_id } = await output('filter_rows', { column: 'Origin', value: 'Japan' });
    await tools.close();
    await start({ DEMO_PUBLISH_DELAY_MS: '0' });
    assert.equal((await output('aggregate', { dataset_id, metric: 'Horsepower', op: 'count' }))['value'], 79);
  });

  it('says so when a data set is unknown or arguments are wrong', async () => {
    const unknown = await call('aggregate', { dataset_id: 'trucks', metric: 'Horsepower' });
    assert.equal(briefly(unknown), 'error tool-error');
    assert.match(messageOf(unknown), /no data set "trucks"/);
    assert.match(messageOf(await call('filter_rows', { column: 'Colour', value: 'red' })), /Colour|column/i);
  });

  it('compares two numbers, zero and equal ones too', async () => {
    assert.deepEqual(await output('compare', { from: 20, to: 25 }), {
      difference: 5,
      ratio: 1.25,
      percent: 25,
      direction: 'rose',
    });
    assert.equal((await output('compare', { from: 0, to: 25 }))['ratio'], null);
    assert.equal((await output('compare', { from: 2, to: 2 }))['direction'], 'stayed the same');
  });

  it('publishes once for one idempotency key, and again for another', async () => {
    const publish = (idempotencyKey: string) => call('publish_report', { title: 'T', text: 'x' }, { idempotencyKey });
    const first = outputOf(await publish('key-1'));
    assert.deepEqual(outputOf(await publish('key-1')), first);
    assert.notDeepEqual(outputOf(await publish('key-2')), first);
    assert.deepEqual(
      readEffects(effects).map((effect) => effect.key),
      ['key-1', 'key-2'],
    );
  });

  it('has its effect before it answers, and still once when it is cut off in between', async () => {
    await tools.close();
    await start({ DEMO_PUBLISH_DELAY_MS: '60000' });
    const attempt = { idempotencyKey: 'key-1' };
    const controller = new AbortController();
    const lost = call('publish_report', { title: 'T', text: 'x' }, { ...attempt, signal: controller.signal });
    await waitUntil('the effect is written', () => readEffects(effects).length === 1);
    controller.abort();
    assert.equal(briefly(await lost), 'aborted aborted');
    await tools.close();
    await start({ DEMO_PUBLISH_DELAY_MS: '0' });
    assert.equal(briefly(await call('publish_report', { title: 'T', text: 'x' }, attempt)), 'succeeded');
    assert.equal(readEffects(effects).length, 1);
  });
});

describe('datasetId', () => {
  const conditions = fc.array(
    fc.record({
      column: fc.constantFrom(...COLUMNS),
      op: fc.constantFrom(...COMPARISONS),
      value: fc.oneof(fc.string({ unit: 'grapheme', minLength: 1 }), fc.integer()),
    }),
  );

  it('can be read back, and selects the same rows', () => {
    const cars = loadCars();
    fc.assert(
      fc.property(conditions, (wanted) => {
        const read = readDatasetId(datasetId(wanted)) ?? assert.fail('it cannot be read');
        const rows = (all: typeof wanted) => cars.filter((car) => all.every((condition) => matches(car, condition)));
        assert.deepEqual(rows(read), rows(wanted));
      }),
    );
  });

  it('answers any other text with nothing instead of throwing', () => {
    fc.assert(fc.property(fc.string(), (text) => readDatasetId(`cars;${text}`) === undefined || text.includes(' ')));
    for (const id of ['', 'trucks', 'cars;', 'cars;Origin', 'cars;Origin eq %', 'cars;Colour eq red']) {
      assert.equal(readDatasetId(id), undefined, id);
    }
  });
});
