import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readSse, type SseMessage } from '../../scripts/demo/read-sse.ts';

describe('the reader of server-sent events', () => {
  it('reads fields, comments, several lines of data, and every end of a line', async () => {
    const text = 'id: 1\nevent: a\ndata: x\ndata: y\n\n: ping\n\ndata:z\r\n\r\nid: 7\rdata: q\r\revent: none\n\n';
    assert.deepEqual(await read([text]), [
      { lastEventId: '1', event: 'a', data: 'x\ny' },
      { lastEventId: '1', event: 'message', data: 'z' },
      { lastEventId: '7', event: 'message', data: 'q' },
    ]);
  });

  it('drops what a broken stream has begun and not ended', async () => {
    assert.deepEqual(await read(['id: 1\ndata: whole\n\nid: 2\ndata: ha']), [
      { lastEventId: '1', event: 'message', data: 'whole' },
    ]);
  });

  it('reads the same however the bytes are cut', async () => {
    const text = 'id: 1\nevent: ä\ndata: {"ü":"→"}\r\n\r\n: c\n\nid: 2\r\ndata: 𝄞\r\ndata:\n\n';
    const bytes = Buffer.from(text);
    const whole = await read([text]);
    assert.equal(whole.length, 2);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat({ max: bytes.length }), { maxLength: 8 }), async (cuts) => {
        const places = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
        const pieces = places.slice(1).map((end, index) => bytes.subarray(places[index], end));
        assert.deepEqual(await read(pieces), whole);
      }),
    );
  });
});

async function read(chunks: readonly (string | Uint8Array)[]): Promise<SseMessage[]> {
  async function* body() {
    for (const chunk of chunks) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
  }
  const messages: SseMessage[] = [];
  for await (const message of readSse(body())) messages.push(message);
  return messages;
}
