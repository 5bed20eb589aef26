import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { ofDataDir } from '../../db/data-dir-error.ts';

describe('An error of a data directory', () => {
  const dir = tmpdir();
  const messageOf = (error: unknown) => {
    const said = ofDataDir(dir, error);
    assert.ok(said instanceof Error);
    return said.message;
  };

  it('names the variable, the directory and what is free there', () => {
    const place = `DROVER_DATA_DIR is ${dir}, in which the database cannot work:`;
    const full = Object.assign(new Error('no space left on device, write'), { code: 'ENOSPC' });
    // As PGlite throws it.
    for (const error of [full, { errno: 51 }]) {
      assert.match(messageOf(error), new RegExp(`^${place} no space is left \\(\\d+ MiB are free there\\)\\.$`));
    }
    assert.match(messageOf({ name: 'ErrnoError', errno: 8 }), /: its files cannot be read or written \(\d+ MiB/);
    assert.match(
      messageOf(new Error('PGlite failed to initialize properly')),
      /: PGlite failed to initialize properly \(/,
    );
  });

  it('stays what it is where it says by itself what is wrong', () => {
    const held = new Error('process 7 holds it');
    assert.equal(ofDataDir(dir, held), held);
  });
});
