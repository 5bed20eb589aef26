import assert from 'node:assert/strict';
import { ODD_SERVER } from '../../support/odd-server.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';

describe('An image that a tool answers', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine(undefined, { DROVER_STDIO_COMMANDS: ODD_SERVER.command });
  });
  after(() => engine.close());

  it('reaches the model as an image, also once the run was loaded again', async () => {
    const agent = await engine.agent({}, [
      { name: 'screenshot', transport: { type: 'mcp_stdio', ...ODD_SERVER, tool: 'screenshot' } },
    ]);
    engine.say((request, n) => (n % 2 === 0 ? use({ name: offered(request, 'screenshot') }) : text('seen')));
    const { run } = await engine.start(agent, 'look', { config: { keep_open: true } });
    await engine.finish(run);
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } };
    const [result] = (await engine.conversation(run)).at(-2)?.content ?? [];
    assert.ok(result?.type === 'tool_result' && Array.isArray(result.content));
    assert.deepEqual(result.content[2], image);
    assert.deepEqual(imagesSent(engine), [image]);
    assert.equal(
      JSON.stringify(engine.model.requests.at(-1)?.body).split('iVBORw0KGgo=').length,
      2,
      'and as nothing else',
    );
    await engine.everyoneDies();
    await engine.post(agent, run, 'again');
    await engine.drive(run);
    assert.deepEqual(imagesSent(engine), [image]);
  });
});

/** The images in the results of the last request to the model. */
function imagesSent({ model }: Engine): unknown[] {
  const messages = model.requests.at(-1)?.body['messages'] as { content: { content?: { type: string }[] }[] }[];
  return messages.flatMap(({ content }) =>
    content.flatMap((block) => (block.content ?? []).filter(({ type }) => type === 'image')),
  );
}
