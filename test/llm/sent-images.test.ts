/** Images as requests have them, whatever their senders have called them. */
import assert from 'node:assert/strict';
import type { ImageBlock, Message } from '../../core/content.ts';
import { anthropicParams } from '../../llm/anthropic-request.ts';
import { openaiParams } from '../../llm/openai-request.ts';
import { modelRequest, userText } from '../support/model-request.ts';
import { PIXEL } from '../support/pixel.ts';

const PNG = PIXEL.replace(/^.*,/, '');
const BMP = Buffer.from('BM and so on').toString('base64');

const image = (media_type: string, data: string): ImageBlock => ({
  type: 'image',
  source: { type: 'base64', media_type, data },
});

/** A conversation whose only call has these images in its result, and whose user sends them, too. */
const withImages = (...images: ImageBlock[]): Message[] => [
  userText('look'),
  { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }] },
  { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: images }, ...images] },
];

const NONE = 'left out: it is no JPEG, PNG, GIF or WebP image]';

describe('An image in a request', () => {
  const toClaude = (...images: ImageBlock[]) => {
    const { messages } = anthropicParams(modelRequest({ messages: withImages(...images) }));
    const content = messages.at(-1)?.content as { type: string; content?: unknown[] }[];
    const plain = content.map(({ type, ...block }) => ({ type, ...block, cache_control: undefined }));
    return { inResult: plain[0]?.content, said: JSON.parse(JSON.stringify(plain.slice(1))) as unknown };
  };
  const toGpt = (...images: ImageBlock[]) => {
    const { messages } = openaiParams(modelRequest({ model: 'gpt-4.1', messages: withImages(...images) }));
    const [result, said] = messages.slice(-2).map(({ content }) => content);
    return { result, said };
  };

  it('has the type that its first bytes say, in a result and in a message', () => {
    const sent = [image('image/png', PNG)];
    assert.deepEqual(toClaude(image('image/jpeg', PNG)), { inResult: sent, said: sent });
    const { result, said } = toGpt(image('image/jpeg', PNG));
    assert.equal(result, '[image: see the next message]');
    const url = { type: 'image_url', image_url: { url: PIXEL } };
    assert.deepEqual(said, [{ type: 'text', text: 'Image of the result toolu_1:' }, url, url]);
  });

  it('is named in words if it is empty, or none that models take', () => {
    const bad = [image('image/png', ''), image('image/bmp', BMP), image('image/png', BMP)];
    const named = ['image/png', 'image/bmp', 'image/png'].map((type) => `[${type} ${NONE}`);
    const texts = named.map((text) => ({ type: 'text', text }));
    assert.deepEqual(toClaude(...bad), { inResult: texts, said: texts });
    assert.deepEqual(toGpt(...bad), { result: named.join('\n'), said: texts });
  });

  it('is read as it is where its base64 has line breaks, and its address is sent as it is', () => {
    const broken = `${PNG.slice(0, 7)}\r\n${PNG.slice(7)}`;
    const address: ImageBlock = { type: 'image', source: { type: 'url', url: 'https://a.example/b.bmp' } };
    const sent = [image('image/png', broken), address];
    assert.deepEqual(toClaude(image('image/gif', broken), address), { inResult: sent, said: sent });
  });
});
