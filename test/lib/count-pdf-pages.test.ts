import assert from 'node:assert/strict';
import { deflateSync } from 'node:zlib';
import fc from 'fast-check';
import { countPdfPages } from '../../lib/count-pdf-pages.ts';
import { cpuMs } from '../support/cpu-time.ts';

const page = (n: number) => `${n} 0 obj\n<< /Type /Page /Parent 1 0 R >>\nendobj\n`;
const tree = '1 0 obj\n<</Type/Pages/Kids[2 0 R]/Count 1>>\nendobj\n';
/** Objects within a stream, as most writers have kept them since PDF 1.5. */
const packed = (objects: string, content = deflateSync(Buffer.from(objects))) =>
  Buffer.concat([
    Buffer.from(
      `9 0 obj\n<< /Type /ObjStm /N 3 /First 20 /Filter /FlateDecode /Length ${content.length} >>\nstream\r\n`,
    ),
    content,
    Buffer.from('\nendstream\nendobj\n'),
  ]);
const pdf = (...parts: (string | Buffer)[]) =>
  Buffer.concat(['%PDF-1.7\n', ...parts, '%%EOF'].map((each) => Buffer.from(each as string)));

function pagesOf(...chunks: Buffer[]): number | undefined {
  const pages = countPdfPages();
  for (const chunk of chunks) pages.read(chunk);
  return pages.count();
}

describe('countPdfPages', () => {
  it('counts pages, and no trees of pages', () => {
    assert.equal(pagesOf(pdf(tree, page(2), page(3))), 2);
    assert.equal(pagesOf(pdf(tree, '2 0 obj<</Parent 1 0 R/Type/Page>>endobj')), 1);
  });

  it('counts those that are packed, too, wherever the chunks end', () => {
    const content = pdf(tree, page(2), packed('<</Type/Page/Parent 1 0 R>><</Type/Pages>><</Type /Page>>'), page(3));
    assert.equal(pagesOf(content), 4);
    fc.assert(
      fc.property(fc.array(fc.nat(content.length), { maxLength: 6 }), (cuts) => {
        const at = [0, ...cuts.toSorted((a, b) => a - b), content.length];
        const chunks = at.slice(1).map((end, index) => content.subarray(at[index], end));
        assert.equal(pagesOf(...chunks), 4);
      }),
    );
  });

  it('does not know where it finds none, or where it cannot read all of them', () => {
    assert.equal(pagesOf(pdf(tree)), undefined);
    assert.equal(pagesOf(pdf(page(2), packed('', Buffer.from('no deflate')))), undefined);
    const bomb = packed(' '.repeat(20 * 1024 * 1024));
    assert.equal(pagesOf(pdf(page(2), bomb)), undefined);
    assert.equal(pagesOf(pdf(page(2)), Buffer.alloc(21 * 1024 * 1024)), undefined);
  });

  it('gives up on what takes long to look at', () => {
    const stream = packed('<</Type/Page>>');
    const hostile = [
      Buffer.alloc(7_000_000, stream),
      Buffer.alloc(7_000_000, '/Type/Page '),
      packed('', deflateSync(Buffer.alloc(7_000_000, '/Type/Page '))),
      Buffer.concat([stream.subarray(0, 90), Buffer.alloc(7_000_000, 'x')]),
    ];
    const before = cpuMs();
    for (const content of hostile) assert.equal(pagesOf(content), undefined);
    const ms = cpuMs() - before;
    assert.ok(ms < 1500, `${ms} ms`);
  });
});
