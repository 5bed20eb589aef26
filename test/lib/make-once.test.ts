import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeOnce } from '../../lib/make-once.ts';

describe('What is made once', () => {
  let around: string;
  let folder: string;
  let made: number;
  beforeEach(() => {
    around = join(mkdtempSync(join(tmpdir(), 'drover-made-')), 'made');
    folder = join(around, 'it');
    made = 0;
  });
  afterEach(() => rmSync(join(around, '..'), { recursive: true, force: true }));

  const make = async (into: string) => {
    mkdirSync(into);
    writeFileSync(join(into, 'file'), String((made += 1)));
  };
  const kept = () => readFileSync(join(folder, 'file'), 'utf8');

  it('stays, and is not made again', async () => {
    await makeOnce(folder, make);
    await makeOnce(folder, make);
    assert.deepEqual([made, kept(), readdirSync(around)], [1, '1', ['it']]);
  });

  it('is the first one where several make it at the same time, and nothing else is left', async () => {
    let open: () => void = () => undefined;
    const both = new Promise<void>((resolve) => (open = resolve));
    const together = async (into: string) => {
      await make(into);
      if (made === 2) open();
      await both;
    };
    await Promise.all([makeOnce(folder, together), makeOnce(folder, together)]);
    assert.equal(made, 2);
    assert.match(kept(), /^[12]$/);
    assert.deepEqual(readdirSync(around), ['it']);
  });

  it('is not there at all where making it fails, and can be made later', async () => {
    const breaking = async (into: string) => {
      await make(into);
      throw new Error('no more room');
    };
    await assert.rejects(makeOnce(folder, breaking), /no more room/);
    assert.deepEqual(readdirSync(around), []);
    await makeOnce(folder, make);
    assert.equal(kept(), '2');
  });

  it('takes away what was made for something older, or half, more than a day ago', async () => {
    for (const name of ['older', 'making-half', 'of another process'])
      mkdirSync(join(around, name), { recursive: true });
    const dayAgo = Date.now() / 1000 - 25 * 3600;
    for (const name of ['older', 'making-half']) utimesSync(join(around, name), dayAgo, dayAgo);
    await makeOnce(folder, make);
    assert.deepEqual(readdirSync(around).toSorted(), ['it', 'of another process']);
  });
});
