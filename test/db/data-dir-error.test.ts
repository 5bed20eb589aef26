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

  it('says that no space is left where a database does not start for want of it', () => {
    const aborted = new Error('Aborted(). Build with -sASSERTIONS for more info.');
    const said = (of: string) => String(ofDataDir(of, aborted));
    // A file system with nothing free.
    assert.match(said('/proc'), /: no space is left \(0 MiB are free there\)\.$/);
    assert.match(said(dir), /: its files are damaged \(\d+ MiB/);
  });

  it('names the variable where nothing may be written', () => {
    for (const code of ['EROFS', 'EACCES']) {
      const refused = Object.assign(new Error(`${code}: read-only file system, open 'lock'`), { code });
      assert.match(
        messageOf(refused),
        new RegExp(`^DROVER_DATA_DIR is ${dir}.*: nothing can be written there \\(${code}\\) \\(`),
      );
    }
  });

  it('stays what it is where it says by itself what is wrong', () => {
    const held = new Error('process 7 holds it');
    assert.equal(ofDataDir(dir, held), held);
  });
});
