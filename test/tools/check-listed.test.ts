import assert from 'node:assert/strict';
import { checkListed } from '../../tools/check-listed.ts';
import type { ImportedTool } from '../../tools/transport-kind.ts';
import { createArgumentValidator } from '../../tools/validate-arguments.ts';

const toolOf = (name: string, properties: number): ImportedTool => ({
  name,
  description: '',
  input_schema: {
    type: 'object',
    properties: Object.fromEntries(Array.from({ length: properties }, (_, n) => [`${name}${n}`, { type: 'string' }])),
  },
  transport: { type: 'mcp_http', endpoint: 'https://tools.example/mcp', tool: name },
  risk_level: 'READ_ONLY',
  annotations: {},
});

describe('checkListed', () => {
  it('lets others have their turn while it compiles the schemas of a list', async () => {
    let turns = 0;
    let isOver = false;
    const turn = () => {
      turns += 1;
      if (!isOver) setImmediate(turn);
    };
    setImmediate(turn);
    const names = ['a', 'b', 'c', 'd'];
    const listed = await checkListed(
      names.map((name) => toolOf(name, 1000)),
      createArgumentValidator(),
    );
    isOver = true;
    assert.ok(turns >= names.length - 1, `${turns}`);
    assert.deepEqual(
      listed.map(({ name, fault }) => [name, fault]),
      names.map((name) => [name, undefined]),
    );
  });

  it('says of each tool why it cannot be registered, and compiles none that is far too large', async () => {
    // It keeps the reason that it has, whatever is wrong with its schema, too.
    const unnamed = { ...toolOf('c', 10_000), fault: 'Its server takes calls of it as tasks alone.' };
    const tools = [toolOf('a', 1), toolOf('b', 10_000), unnamed];
    const listed = await checkListed(tools, createArgumentValidator());
    const large =
      'Its input schema cannot be used: must have at most 15000 values, where patterns, $refs, dependentRequired and unevaluatedProperties count as more';
    assert.deepEqual(
      listed.map(({ fault }) => fault),
      [undefined, large, unnamed.fault],
    );
  });

  it('leaves out what its time is not enough for', async () => {
    const { together } = createArgumentValidator();
    const listed = await checkListed([toolOf('a', 500), toolOf('b', 1)], { together: () => together(1) });
    assert.equal(listed[0]?.fault, undefined);
    assert.match(listed[1]?.fault ?? '', /was not checked, as what came before it took too long/);
  });
});
