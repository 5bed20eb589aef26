/**
 * A file of 100 MiB up and down, and parts of it, through an API in a process of its own: what is measured is how much that
 * process grows. The S3 server, a real one, and the client are in the test's.
 */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { PLACES, type Place } from '../support/file-places.ts';
import { startInstallation, type Installation } from '../support/installation.ts';
import { DOMAIN_MODE } from '../support/modes.ts';

const MiB = 1024 * 1024;
const SIZE = 100 * MiB;
const PART = 10 * MiB;

for (const [name, open] of Object.entries(PLACES)) {
  describe(`a file of 100 MiB on ${name}`, () => {
    let place: Place;
    let drover: Installation;

    before(async () => {
      place = await open();
      drover = await startInstallation(DOMAIN_MODE, { env: { DROVER_FILES_URL: place.url }, workers: [] });
    });
    after(async () => {
      await drover?.close();
      await place?.close();
    });

    it('goes up and down, whole and in parts, in less than 64 MiB more of memory of the process', async () => {
      const chunk = randomBytes(MiB);
      // What a process loads and compiles for its first file is no part of what a large one takes.
      await download((await upload(chunk, MiB)).id);
      const growth = await watchMemory(drover.process('api').pid);

      const file = await upload(chunk, SIZE);
      assert.equal(file.size, SIZE);
      const up = await growth();
      assert.equal(await download(file.id), file.sha256);
      const down = await growth();
      const parts = createHash('sha256');
      for (let from = 0; from < SIZE; from += PART)
        await download(file.id, { hash: parts, range: `bytes=${from}-${from + PART - 1}` });
      assert.equal(parts.digest('hex'), file.sha256);
      const inParts = await growth();
      const told = [up, down, inParts].map((bytes) => `${Math.round(bytes / MiB)} MiB`).join(', then ');
      assert.ok(inParts < 64 * MiB, told);
    });

    const headers = () => ({ authorization: `Bearer ${drover.key}` });

    /** Sends so many bytes, as fast as they are taken. */
    async function upload(chunk: Buffer, size: number): Promise<{ id: string; size: number; sha256: string }> {
      const type = 'multipart/form-data; boundary=b';
      const sending = request(`${drover.url()}/v1/files`, {
        method: 'POST',
        headers: { ...headers(), 'content-type': type },
      });
      const answer = new Promise<string>((resolve, reject) => {
        sending.once('error', reject);
        sending.once('response', (response) => {
          let text = '';
          response.on('data', (piece: Buffer) => (text += piece.toString()));
          response.once('end', () => resolve(text));
        });
      });
      const form = function* () {
        yield '--b\r\ncontent-disposition: form-data; name="file"; filename="large.bin"\r\n\r\n';
        for (let sent = 0; sent < size; sent += chunk.length) yield chunk;
        yield '\r\n--b--\r\n';
      };
      await pipeline(form, sending);
      return JSON.parse(await answer) as { id: string; size: number; sha256: string };
    }

    /** The digest of what comes, or of what has come to `hash` with it. */
    async function download(id: string, { hash = createHash('sha256'), range = '' } = {}): Promise<string> {
      const response = await fetch(`${drover.url()}/v1/files/${id}/content`, {
        headers: { ...headers(), ...(range !== '' && { range }) },
      });
      assert.equal(response.status, range === '' ? 200 : 206);
      for await (const piece of response.body ?? []) hash.update(piece as Uint8Array);
      return range === '' ? hash.digest('hex') : '';
    }
  });
}

/**
 * The most resident memory that a process has had since this was called, beyond what it had then, in bytes: the kernel keeps
 * the mark (`VmHWM`), which is set back first, so that nothing between two looks is missed.
 */
async function watchMemory(pid: number): Promise<() => Promise<number>> {
  const read = async (what: 'VmRSS' | 'VmHWM') => {
    const [, kilobytes] =
      new RegExp(`^${what}:\\s+(\\d+) kB`, 'm').exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? [];
    assert.ok(kilobytes !== undefined, 'memory is measured on Linux');
    return Number(kilobytes) * 1024;
  };
  await writeFile(`/proc/${pid}/clear_refs`, '5');
  const atFirst = await read('VmRSS');
  return async () => (await read('VmHWM')) - atFirst;
}
