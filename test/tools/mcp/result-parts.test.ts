import assert from 'node:assert/strict';
import { readResult } from '../../../tools/mcp/result-parts.ts';

describe('A resource that an MCP server answers as bytes', () => {
  const shown = (mimeType: string, bytes: Buffer) => {
    const resource = { uri: 'file:///letter', mimeType, blob: bytes.toString('base64') };
    return readResult({ content: [{ type: 'resource', resource }] }).content;
  };
  const latin = Buffer.from('caf\xe9', 'latin1');

  it('is text where its type says so, in UTF-8 or in the charset that it names', () => {
    const text = [{ type: 'text', text: 'café' }];
    assert.deepEqual(shown('text/plain', Buffer.from('café')), text);
    assert.deepEqual(shown('text/plain; charset="ISO-8859-1"', latin), text);
    assert.deepEqual(shown('Text/CSV;charset=utf-16le', Buffer.from('café', 'utf16le')), text);
  });

  it('is named with type and size where it is no such text, and never shown as what it is not', () => {
    const types = ['text/plain', 'text/plain; charset=utf-8', 'application/json', 'text/plain; charset=of-nobody'];
    for (const type of types) {
      const why = 'whose bytes are no text in its charset (UTF-8 unless it names one)';
      const text = `[resource file:///letter: ${type} of 4 bytes, ${why}, left out]`;
      assert.deepEqual(shown(type, latin), [{ type: 'text', text }]);
    }
    const text = '[resource file:///letter: application/zip of 4 bytes left out]';
    assert.deepEqual(shown('application/zip', latin), [{ type: 'text', text }]);
  });
});

describe('An integer beyond 2^53 in the result of an MCP server', () => {
  // As a client has it that reads JSON.
  const structuredContent = JSON.parse('{"id": 12345678901234567890}') as { id: number };
  const block = (text: string) => ({ type: 'text' as const, text });

  it('keeps its digits in text, and in structured content that a text repeats', () => {
    const kept = { id: '12345678901234567890' };
    const json = '{"id": 12345678901234567890}';
    assert.deepEqual(readResult({ content: [block(json)] }), { output: kept });
    assert.deepEqual(readResult({ content: [block(json)], structuredContent }), { output: kept });
    const beside = readResult({ content: [block(json), block('Done.')], structuredContent });
    assert.deepEqual(beside, { output: kept, content: [block('{"id":"12345678901234567890"}'), block('Done.')] });
  });

  it('is as the client has it where no text repeats it', () => {
    assert.deepEqual(readResult({ content: [], structuredContent }), { output: structuredContent });
  });
});
