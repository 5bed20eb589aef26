import assert from 'node:assert/strict';
import type { SessionNotification } from '@agentclientprotocol/sdk';
import { openAcpSession } from '../../api/wire/acp-session.ts';
import { newId } from '../../lib/new-id.ts';
import { openEngine, text, type Engine } from '../support/engine.ts';

describe('A session over ACP that is loaded', () => {
  let engine: Engine;

  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  /** What a client is told that loads the session; `meanwhile` is done before the first update is taken. */
  const load = async (of: { agentId: string; sessionId: string }, meanwhile?: () => Promise<unknown>) => {
    const shown: SessionNotification['update'][] = [];
    const connection = new AbortController();
    const session = openAcpSession(engine.context, {
      ...of,
      caller: engine.caller,
      signal: connection.signal,
      canAsk: () => false,
      ask: async () => undefined,
      onFault: (error) => assert.fail(String(error)),
      async update({ update }) {
        if (shown.length === 0) await meanwhile?.();
        shown.push(update);
      },
    });
    await session.load({ place: 0, seq: 0 });
    connection.abort();
    return shown;
  };

  it('shows the answer of a turn that ends while what came before it is being shown', async () => {
    const agentId = await engine.agent();
    engine.say(() => text('There it is.'));
    const { run, thread: sessionId } = await engine.start(agentId, 'Where is it?');
    const shown = await load({ agentId, sessionId }, () => engine.finish(run));
    // A chunk without text says how far the log is.
    const said = shown.flatMap((update) =>
      'content' in update && !Array.isArray(update.content) && update.content?.type === 'text' && update.content.text
        ? [[update.sessionUpdate, update.content.text]]
        : [],
    );
    assert.deepEqual(said, [
      ['user_message_chunk', 'Where is it?'],
      ['agent_message_chunk', 'There it is.'],
    ]);
  });

  it('shows the files of a message ahead of its text', async () => {
    const agentId = await engine.agent();
    const file_id = newId();
    const input = {
      message: 'see',
      attachments: [
        { type: 'text' as const, text: 'a note' },
        { type: 'file' as const, file_id, media_type: 'image/png', filename: 'r.png', size: 9 },
      ],
    };
    const { thread: sessionId } = await engine.start(agentId, 'see', { input });
    const shown = await load({ agentId, sessionId });
    const contents = shown.flatMap((update) => (update.sessionUpdate === 'user_message_chunk' ? [update.content] : []));
    const [note, image, words] = contents;
    assert.deepEqual(note?.type === 'resource' && 'text' in note.resource && note.resource.text, 'a note');
    const uri = `/v1/files/${file_id}/content`;
    assert.deepEqual(image, { type: 'resource_link', uri, name: 'r.png', mimeType: 'image/png', size: 9 });
    assert.deepEqual(words, { type: 'text', text: 'see' });
  });
});
