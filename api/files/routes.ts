/** Files stored by clients, tools and providers. */
import { z } from 'zod';
import { DroverError } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { cutOffStalled } from '../../lib/cut-off-stalled.ts';
import { openContent } from '../../modules/files/content.ts';
import { deleteFile } from '../../modules/files/delete-file.ts';
import { readFiles, requireFile, type FileRow } from '../../modules/files/read-files.ts';
import { uploadFile } from '../../modules/files/upload-file.ts';
import { threadIdParam } from '../kit/external-ids.ts';
import { pageFields, pageOf, pageQuery } from '../kit/paging.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { idParam } from '../kit/validate.ts';
import { contentHeaders, isExpected, isKnown, rangeOf } from './content-headers.ts';
import { receiveUpload, uploadFields } from './multipart.ts';

const file = z
  .strictObject({
    id: z.uuid(),
    file_id: z.uuid(),
    filename: z.string(),
    size: z.int().describe('In bytes.'),
    mime_type: z.string(),
    sha256: z.string().describe('Of the content, in hex.'),
    origin: z.enum(['user', 'tool', 'provider']),
    trust: z.enum(['trusted', 'untrusted']),
    thread_id: z.uuid().nullable(),
    run_id: z.uuid().nullable().describe('The run that has made it.'),
    created_at: z.iso.datetime(),
  })
  .meta({ id: 'File' });

const idOnly = z.strictObject({ id: idParam });

const create = defineRoute({
  method: 'post',
  path: '/v1/files',
  access: 'runs:write',
  summary: 'Store a file: multipart/form-data with the part "file"',
  idempotent: true,
  upload: uploadFields,
  responses: { 201: file },
  handle({ ctx, caller, context, idempotency }) {
    const by = { caller, idempotency, present: presentFile };
    return receiveUpload({ ctx, caller, context }, (upload) => uploadFile(context, by, upload));
  },
});

const list = defineRoute({
  method: 'get',
  path: '/v1/files',
  access: 'runs:read',
  threadToken: { scope: 'read' },
  summary: 'List files, newest first',
  query: pageQuery().extend({ thread_id: threadIdParam.optional(), run_id: idParam.optional() }),
  responses: { 200: pageFields('files', file) },
  async handle({ caller, query, context }) {
    const { limit, cursor: before, thread_id: threadId, run_id: runId } = query;
    const rows = await context.db.withTenant(caller.tenantId, (tx) =>
      readFiles(tx, caller, { before, threadId, runId, limit: limit + 1 }),
    );
    const { items, ...rest } = pageOf(rows, limit, (row) => row.id);
    return { status: 200, body: { files: items.map(presentFile), ...rest } };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/files/:id',
  access: 'runs:read',
  threadToken: { scope: 'read' },
  summary: 'Get what is known of a file',
  params: idOnly,
  responses: { 200: file },
  async handle({ caller, params, context }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireFile(tx, caller, params.id));
    return { status: 200, body: presentFile(row) };
  },
});

const bytes = { contentType: '*/*', description: "The content, of the file's own type" };

const content = defineRoute({
  method: 'get',
  path: '/v1/files/:id/content',
  access: 'runs:read',
  threadToken: { scope: 'read' },
  summary: 'Get the content of a file, or with Range a part of it',
  documentsHead: true,
  params: idOnly,
  responses: { 200: bytes, 206: bytes, 304: 'empty' },
  async handle({ caller, params, context, ctx }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireFile(tx, caller, params.id));
    const headers = contentHeaders(row);
    if (!isExpected(ctx.get('if-match'), row)) {
      throw new DroverError('precondition-failed', 412, 'The content has none of the tags of If-Match.');
    }
    if (isKnown(ctx.get('if-none-match'), row)) return { status: 304, headers };
    const isHead = ctx.method === 'HEAD';
    // RFC 9110, 14.2: ranges are for GET only.
    const range = isHead ? undefined : rangeOf({ range: ctx.get('range'), ifRange: ctx.get('if-range') }, row);
    if (range === 'none') {
      ctx.set('content-range', `bytes */${row.size}`);
      throw new DroverError('range-not-satisfiable', 416, `The content has ${row.size} bytes.`);
    }
    const length = range ? range.end - range.start + 1 : row.size;
    const part = range && { 'content-range': `bytes ${range.start}-${range.end}/${row.size}` };
    const sent = { status: range ? 206 : 200, headers: { ...headers, ...part, 'content-length': String(length) } };
    if (isHead) return sent;
    if (length === 0) return { ...sent, body: '' };
    // A client that stops reading would keep an object open.
    cutOffStalled(ctx.res, LIMITS.uploadStallSeconds * 1000);
    return { ...sent, body: await openContent(context, row, range) };
  },
});

const remove = defineRoute({
  method: 'delete',
  path: '/v1/files/:id',
  access: 'runs:write',
  summary: 'Delete a file; conversations that it came into say that it is gone',
  params: idOnly,
  responses: { 204: 'empty' },
  async handle({ caller, params, context }) {
    await deleteFile(context, caller, params.id);
    return { status: 204 };
  },
});

export const FILE_ROUTES: readonly Route[] = [create, list, get, content, remove];

/** A file in the API's form. */
function presentFile(row: FileRow): z.input<typeof file> {
  return {
    id: row.id,
    file_id: row.id,
    filename: row.filename,
    size: row.size,
    mime_type: row.mime_type,
    sha256: row.sha256,
    origin: row.origin,
    trust: row.trust,
    thread_id: row.thread_id,
    run_id: row.run_id,
    created_at: row.created_at.toISOString(),
  };
}
