import assert from 'node:assert/strict';
import type { Message } from '../../core/content.ts';
import type { WorkflowExample } from '../../core/definition.ts';
import { NO_TOKENS } from '../../core/model.ts';
import type { ModelRequest } from '../../core/model.ts';
import { offlineModel } from '../../llm/offline.ts';
import { ask, modelRequest, userText, WEATHER } from '../support/model-request.ts';
import { cpuMs } from '../support/cpu-time.ts';

const stream = offlineModel();

const FILTER = {
  name: 'filter_rows',
  description: 'Keeps the rows of a table whose column has a value.',
  input_schema: {
    type: 'object',
    properties: { column: { type: 'string' }, value: { type: 'string' }, limit: { type: 'integer' } },
    required: ['column', 'value'],
  },
};
const AGGREGATE = {
  name: 'aggregate',
  description: 'Computes an average or sum over a column.',
  input_schema: {
    type: 'object',
    properties: { rows: { type: 'array' }, operation: { type: 'string', enum: ['average', 'sum'] } },
    required: ['rows', 'operation'],
  },
};
const CALCULATOR = {
  name: 'calculator',
  description: 'Evaluates an arithmetic expression.',
  input_schema: { type: 'object', properties: { expression: { type: 'string' } }, required: ['expression'] },
};
const HTTP_GET = {
  name: 'http_get',
  description: 'Fetches a web page.',
  input_schema: { type: 'object', properties: { url: { type: 'string' } }, required: ['url'] },
};

/** Plays a turn against scripted tools until the planner answers without a call. */
async function play(
  request: ModelRequest,
  tools: Record<string, (input: Record<string, unknown>) => unknown>,
): Promise<{ calls: { name: string; input: Record<string, unknown> }[]; answer: string }> {
  const calls: { name: string; input: Record<string, unknown> }[] = [];
  let { messages } = request;
  for (let step = 0; step < 10; step += 1) {
    const { response } = await ask(stream, { ...request, messages });
    const call = response.content.find((block) => block.type === 'tool_use');
    if (!call) return { calls, answer: response.content.map((b) => (b.type === 'text' ? b.text : '')).join('') };
    assert.equal(response.stopReason, 'tool_use');
    calls.push({ name: call.name, input: call.input });
    const result = tools[call.name]?.(call.input);
    const failed = result instanceof Error;
    const content = failed ? result.message : typeof result === 'string' ? result : JSON.stringify(result);
    const block = { type: 'tool_result' as const, tool_use_id: call.id, content, ...(failed && { is_error: true }) };
    messages = [...messages, { role: 'assistant', content: response.content }, { role: 'user', content: [block] }];
  }
  return assert.fail('the planner did not come to an end');
}

describe('offlineModel, with workflow examples', () => {
  const example: WorkflowExample = {
    question: 'How do the first {count} cars from {origin} compare?',
    steps: [
      { tool: 'filter_rows', input: { column: 'Origin', value: '{origin}', limit: '{count}' } },
      { tool: 'aggregate', input: { rows: '{{steps.0.output.rows}}', operation: 'average' } },
      { tool: 'calculator', input: { expression: '{{steps.1.output.value}} * {{ steps.0.output.rows[1].n }}' } },
    ],
    answer: 'Cars from {origin}: {{steps.2.output}} (first {{steps.0.output.rows.0.name}}).',
  };
  const tools = [FILTER, AGGREGATE, CALCULATOR];
  const scripted = {
    filter_rows: () => ({
      rows: [
        { name: 'a', n: 1 },
        { name: 'b', n: 4 },
      ],
    }),
    aggregate: () => ({ value: 2.5 }),
    calculator: () => '10',
  };

  it('carries out dependent steps one per answer and answers from the template', async () => {
    const messages = [userText('how do the first 3 cars from Japan   compare')];
    const { calls, answer } = await play(modelRequest({ messages, tools, examples: [example] }), scripted);
    assert.deepEqual(calls, [
      { name: 'filter_rows', input: { column: 'Origin', value: 'Japan', limit: 3 } },
      { name: 'aggregate', input: { rows: scripted.filter_rows().rows, operation: 'average' } },
      { name: 'calculator', input: { expression: '2.5 * 4' } },
    ]);
    assert.equal(answer, 'Cars from Japan: 10 (first a).');
  });

  it('starts the plan anew for the next question of the same conversation', async () => {
    const request = modelRequest({ messages: [userText('Hello')], tools, examples: [example] });
    const first = await play(
      { ...request, messages: [userText('How do the first 1 cars from USA compare?')] },
      scripted,
    );
    const second = await play(
      {
        ...request,
        messages: [
          userText('How do the first 1 cars from USA compare?'),
          { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'filter_rows', input: {} }] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: '[]' }] },
          { role: 'assistant', content: [{ type: 'text', text: first.answer }] },
          userText('How do the first 2 cars from Europe compare?'),
        ],
      },
      scripted,
    );
    assert.equal(second.calls.length, 3);
    assert.equal(second.calls[0]?.input['value'], 'Europe');
  });

  it('goes on with a plan that another model left with calls of its own', async () => {
    const { response } = await ask(
      stream,
      modelRequest({
        tools,
        examples: [example],
        messages: [
          userText('How do the first 3 cars from Japan compare?'),
          {
            role: 'assistant',
            content: [
              { type: 'tool_use', id: 't1', name: 'calculator', input: { expression: '1' } },
              { type: 'tool_use', id: 't2', name: 'filter_rows', input: {} },
            ],
          },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: 't1', content: '1' },
              { type: 'tool_result', tool_use_id: 't2', content: '{"rows": [7]}' },
            ],
          },
        ],
      }),
    );
    const call = response.content.find((block) => block.type === 'tool_use');
    assert.deepEqual(call && [call.name, call.input], ['aggregate', { rows: [7], operation: 'average' }]);
  });

  it('prefers the pattern that says more', async () => {
    const wide: WorkflowExample = { question: 'How do {anything}?', steps: [], answer: 'wide' };
    const messages = [userText('How do the first 3 cars from Japan compare?')];
    const { calls } = await play(modelRequest({ messages, tools, examples: [wide, example] }), scripted);
    assert.equal(calls.length, 3);
  });

  it('follows an example that shares most of its words when none matches as a pattern', async () => {
    const close: WorkflowExample = {
      question: 'Which origin has the most efficient cars?',
      steps: [{ tool: 'calculator', input: { expression: '1' } }],
      answer: 'close',
    };
    const request = modelRequest({ tools, examples: [close] });
    const near = await play(
      { ...request, messages: [userText('Tell me which origin has the efficient cars.')] },
      scripted,
    );
    assert.equal(near.answer, 'close');
    const far = await play({ ...request, messages: [userText('Who wrote Hamlet?')] }, scripted);
    assert.match(far.answer, /no tool or example/);
  });

  it('passes an example over whose tools are not on offer', async () => {
    const messages = [userText('How do the first 3 cars from Japan compare?')];
    const { answer } = await play(modelRequest({ messages, tools: [], examples: [example] }), {});
    assert.match(answer, /no tool or example/);
  });

  it('says which reference leads nowhere instead of calling with it', async () => {
    const messages = [userText('How do the first 3 cars from Japan compare?')];
    const { calls, answer } = await play(modelRequest({ messages, tools, examples: [example] }), {
      filter_rows: () => ({ rows: [] }),
      aggregate: () => ({ value: 0 }),
    });
    assert.equal(calls.length, 2);
    assert.match(answer, /\{\{ steps\.0\.output\.rows\[1\]\.n \}\} refers to nothing/);
  });

  it('ends with what failed after a tool error', async () => {
    const messages = [userText('How do the first 3 cars from Japan compare?')];
    const { calls, answer } = await play(modelRequest({ messages, tools, examples: [example] }), {
      filter_rows: () => new Error('column Origin is gone'),
    });
    assert.equal(calls.length, 1);
    assert.match(answer, /`filter_rows` failed: column Origin is gone/);
  });

  it('composes an answer from the last result where the example has none', async () => {
    const plain: WorkflowExample = {
      question: 'Add it up',
      steps: [{ tool: 'calculator', input: { expression: '1' } }],
    };
    const request = modelRequest({ messages: [userText('Add it up!')], tools, examples: [plain] });
    const { answer } = await play(request, { calculator: () => ({ value: 3, unit: 'cars' }) });
    assert.equal(answer, '`calculator` gives: value: 3, unit: cars');
  });
});

describe('offlineModel, without an example', () => {
  const tools = [WEATHER, CALCULATOR, HTTP_GET, AGGREGATE];
  const firstCall = async (text: string, parts: Partial<ModelRequest> = {}) => {
    const { response } = await ask(stream, modelRequest({ messages: [userText(text)], tools, ...parts }));
    const call = response.content.find((block) => block.type === 'tool_use');
    return call && { name: call.name, input: call.input };
  };

  it('picks the tool by its words and its arguments by their types', async () => {
    assert.deepEqual(await firstCall('What is 12 * (3 + 4)?'), {
      name: 'calculator',
      input: { expression: '12 * (3 + 4)' },
    });
    assert.deepEqual(await firstCall('What is 6 times 7?'), { name: 'calculator', input: { expression: '6 * 7' } });
    assert.deepEqual(await firstCall('Fetch https://example.com/a?b=1.'), {
      name: 'http_get',
      input: { url: 'https://example.com/a?b=1' },
    });
    assert.deepEqual(await firstCall('How is the weather in the city of "Rome"?'), {
      name: 'weather',
      input: { city: 'Rome' },
    });
  });

  it('fills numbers, dates, enums, booleans and lists from the message', async () => {
    const input_schema = {
      type: 'object',
      properties: {
        amount: { type: 'number' },
        count: { type: 'integer' },
        start_date: { type: 'string' },
        unit: { enum: ['miles', 'kilometres'] },
        strict: { type: 'boolean' },
        colour: { type: 'string', default: 'red' },
        note: { type: 'string' },
      },
      required: ['amount', 'count', 'start_date', 'unit', 'strict', 'colour'],
    };
    const trips = { name: 'record_trip', description: 'Records a trip.', input_schema };
    const text = 'Record a trip of 12.5 kilometres, 3 people, from 2026-03-01, not strict';
    assert.deepEqual(await firstCall(text, { tools: [trips] }), {
      name: 'record_trip',
      input: { amount: 12.5, count: 3, start_date: '2026-03-01', unit: 'kilometres', strict: false, colour: 'red' },
    });
  });

  it('does not call a tool whose required arguments the message does not hold', async () => {
    assert.equal(await firstCall('Compute the sum or average over a column, please'), undefined);
  });

  it('calls once and answers from the result', async () => {
    const request = modelRequest({ messages: [userText('What is 1 + 1?')], tools });
    const { calls, answer } = await play(request, { calculator: () => '2' });
    assert.equal(calls.length, 1);
    assert.equal(answer, '`calculator` gives: 2');
  });

  it('takes arguments from JSON in the message, and never the name of an argument for its value', async () => {
    const ticket = {
      name: 'create_ticket',
      description: 'Opens a ticket in the help desk.',
      input_schema: {
        type: 'object',
        properties: { title: { type: 'string' }, urgent: { type: 'boolean' }, body: { type: 'string' } },
        required: ['title'],
      },
    };
    const inputOf = async (message: string) => {
      const { response } = await ask(stream, modelRequest({ messages: [userText(message)], tools: [ticket] }));
      return response.content.find((block) => block.type === 'tool_use')?.input;
    };
    assert.deepEqual(await inputOf('create_ticket {"title": "Printer broken"}'), { title: 'Printer broken' });
    assert.deepEqual(await inputOf('create_ticket: {"title": "It says {}", "urgent": true, "x": 1}, please'), {
      title: 'It says {}',
      urgent: true,
    });
    assert.deepEqual(await inputOf('create_ticket with the "title" "Printer broken"'), { title: 'Printer broken' });
    assert.equal(await inputOf('create_ticket {"body": "It smokes."}'), undefined);
  });

  it('says plainly that it has nothing for a question', async () => {
    const { response, deltas } = await ask(stream, modelRequest({ messages: [userText('Who wrote Hamlet?')], tools }));
    assert.equal(response.stopReason, 'end_turn');
    assert.match(deltas.map((delta) => delta.text).join(''), /^The offline planner has no tool or example for this\./);
  });
});

describe('offlineModel', () => {
  it('labels itself, says what it is about to do in pieces, and counts tokens by estimate', async () => {
    const { response, deltas } = await ask(
      stream,
      modelRequest({ messages: [userText('What is 1 + 1?')], tools: [CALCULATOR] }),
    );
    assert.equal(`${response.provider}/${response.model}`, 'offline/offline');
    assert.deepEqual(response.content[0], { type: 'text', text: 'I need `calculator` for that.' });
    assert.ok(deltas.length > 1);
    assert.equal(deltas.map((delta) => delta.text).join(''), 'I need `calculator` for that.');
    assert.ok(response.usage.input > 30 && response.usage.output > 10);
    assert.deepEqual({ ...response.usage, input: 0, output: 0 }, NO_TOKENS);
  });

  it('gives the same request the same text and call', async () => {
    const request = modelRequest({ messages: [userText('What is 1 + 1?')], tools: [CALCULATOR] });
    const bare = async () =>
      (await ask(stream, request)).response.content.map((block) => ('id' in block ? { ...block, id: '' } : block));
    assert.deepEqual(await bare(), await bare());
  });

  it('summarises the results so far when tools are switched off', async () => {
    const done: Message[] = [
      userText('What is 1 + 1?'),
      { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'calculator', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: '2' }] },
    ];
    for (const messages of [done, [...done, userText('Please sum up.')]]) {
      const { response } = await ask(stream, modelRequest({ messages, tools: [CALCULATOR], toolChoice: 'none' }));
      assert.deepEqual(response.content, [{ type: 'text', text: 'Results so far:\n- `calculator`: 2' }]);
    }
  });

  it('calls a forced tool, whatever the question', async () => {
    const submit = {
      name: 'submit_title',
      description: 'Hands the title in.',
      input_schema: { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] },
    };
    const { response } = await ask(
      stream,
      modelRequest({
        messages: [userText('Cars of the seventies')],
        tools: [CALCULATOR, submit],
        toolChoice: { tool: 'submit_title' },
      }),
    );
    assert.equal(response.content.length, 1);
    const [call] = response.content;
    assert.ok(call?.type === 'tool_use');
    assert.deepEqual([call.name, call.input], ['submit_title', { title: 'Cars of the seventies' }]);
    const missing = ask(stream, modelRequest({ toolChoice: { tool: 'nothing' } }));
    await assert.rejects(missing, { kind: 'invalid_request' });
  });

  it('stops when the signal fires between two pieces', async () => {
    const controller = new AbortController();
    let pieces = 0;
    const call = stream(modelRequest(), {
      signal: controller.signal,
      onDelta: () => {
        pieces += 1;
        controller.abort();
      },
    });
    await assert.rejects(call, { kind: 'aborted' });
    assert.equal(pieces, 1);
  });

  it('takes a message of ten megabytes without hanging', async () => {
    const text = `${'('.repeat(5_000_000)}${'.'.repeat(5_000_000)}x`;
    const tools = [CALCULATOR, HTTP_GET, WEATHER];
    const examples = [{ question: 'What is {a} {b} {c} {d}?', steps: [] }];
    const started = cpuMs();
    await ask(stream, modelRequest({ messages: [userText(text)], tools, examples }));
    assert.ok(cpuMs() - started < 5000);
  });
});
