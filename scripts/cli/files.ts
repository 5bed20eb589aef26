import { createWriteStream, openAsBlob } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { CommandError, EXIT } from './errors.ts';
import { connected, id, idOrExternal, withPage, withPlace, type Page, type Shared } from './options.ts';
import { line, print, printJson, printNext, printTable } from './print.ts';

interface StoredFile {
  id: string;
  filename: string;
  size: number;
  mime_type: string;
  origin: string;
  created_at: string;
}

interface Listed {
  files: StoredFile[];
  next_cursor?: string;
}

/** Adds the commands. */
export function addFiles(program: Command): void {
  const files = program.command('files').description('files of conversations');
  withPage(files.command('list'))
    .description('list files, newest first')
    .option('--thread <id>', 'of this thread, by its id or ext:<external id>', idOrExternal)
    .action(list);
  withPlace(files.command('put'))
    .description('upload a file, and print its id')
    .argument('<path>', 'where it is')
    .option('--thread <id>', 'goes with this thread, by its id or ext:<external id>', idOrExternal)
    .option('--type <type>', 'its MIME type, where its content does not say', '')
    .action(put);
  withPlace(files.command('get'))
    .description('print the content of a file, or write it; with --json, what is known of it')
    .argument('<id>', 'its id', id)
    .option('--out <path>', 'where to; nothing may be there')
    .action(get);
  withPlace(files.command('delete'))
    .description('delete a file')
    .argument('<id>', 'its id', id)
    .action(async (file: string, options: Shared) => {
      await connected(options, (client) => client.delete(`/v1/files/${file}`));
      if (options.json) printJson({ id: file, deleted: true });
      else print(`deleted: ${file}`);
    });
}

async function list({ thread, limit, cursor, ...options }: Shared & Page & { thread?: string }): Promise<void> {
  const query = { limit: String(limit), cursor, thread_id: thread };
  const answer = await connected(options, (client) => client.get<Listed>('/v1/files', query));
  if (options.json) return printJson(answer);
  if (answer.files.length === 0) return print('No files.');
  printTable(
    ['ID', 'NAME', 'TYPE', 'BYTES', 'FROM', 'CREATED'],
    answer.files.map((file) => [
      file.id,
      line(file.filename, 40),
      line(file.mime_type, 40),
      String(file.size),
      file.origin,
      file.created_at,
    ]),
  );
  printNext(answer.next_cursor);
}

async function put(path: string, options: Shared & { thread?: string; type: string }): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (!found?.isFile()) throw new CommandError(EXIT.usage, `${path} is no file.`);
  const form = new FormData();
  if (options.thread !== undefined) form.set('thread_id', options.thread);
  // Read while it is sent.
  form.set('file', await openAsBlob(path, { type: options.type || 'application/octet-stream' }), basename(path));
  const made = await connected(options, (client) => client.upload<StoredFile>('/v1/files', form));
  if (options.json) printJson(made);
  else print(made.id);
}

async function get(file: string, { out, ...options }: Shared & { out?: string }): Promise<void> {
  await connected(options, async (client) => {
    if (options.json) printJson(await client.get<StoredFile>(`/v1/files/${file}`));
    if (options.json && out === undefined) return;
    const content = Readable.fromWeb(await client.download(`/v1/files/${file}/content`));
    if (out === undefined) await pipeline(content, process.stdout, { end: false });
    else await pipeline(content, createWriteStream(out, { flags: 'wx' }));
  });
}
