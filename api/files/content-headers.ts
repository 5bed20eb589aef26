/** Headers for a file's content: whole or in part, always as a download and never as a page. */
import { UNKNOWN_TYPE } from '../../core/file-types.ts';
import type { ByteRange } from '../../lib/file-store.ts';

/** Types that a browser may run or take apart, and texts of which it is not known. */
const ACTIVE =
  /html|xml|xsl|svg|rdf|script|wasm|java|x-shockwave|\/hta$|^(multipart|message)\/|^text\/(?!(plain|csv|markdown|calendar|tab-separated-values)$)/;

interface Served {
  sha256: string;
  filename: string;
  mime_type: string;
}

/** The digest: equal contents have equal tags, whatever their file names. */
function etagOf({ sha256 }: Pick<Served, 'sha256'>): string {
  return `"${sha256}"`;
}

/** A content's headers, except its length. */
export function contentHeaders(file: Served): Record<string, string> {
  return {
    'accept-ranges': 'bytes',
    'content-disposition': `attachment; filename="${asciiName(file.filename)}"; filename*=UTF-8''${encodeName(file.filename)}`,
    'content-security-policy': "default-src 'none'; sandbox; frame-ancestors 'none'",
    'content-type': ACTIVE.test(file.mime_type) ? UNKNOWN_TYPE : file.mime_type,
    etag: etagOf(file),
    'x-content-type-options': 'nosniff',
  };
}

/**
 * Parses a `Range` header. Undefined for the whole content: if the header is not understood or names several parts, or
 * `If-Range` does not match (RFC 9110, 14.2). `none` if the range is outside the content.
 */
export function rangeOf(
  { range, ifRange }: { range: string; ifRange: string },
  file: { size: number; sha256: string },
): ByteRange | 'none' | undefined {
  const [, from = '', to = ''] = /^bytes=(\d*)-(\d*)$/.exec(range.trim()) ?? [];
  if ((from === '' && to === '') || (ifRange !== '' && ifRange !== etagOf(file))) return undefined;
  const { size } = file;
  const start = from === '' ? Math.max(0, size - Number(to)) : Number(from);
  const end = from === '' || to === '' ? size - 1 : Math.min(Number(to), size - 1);
  if (from !== '' && to !== '' && Number(to) < Number(from)) return undefined;
  return start < size && start <= end ? { start, end } : 'none';
}

/** Whether `If-Match` is absent or matches; weak tags do not (RFC 9110, 13.1.1). */
export function isExpected(ifMatch: string, file: Pick<Served, 'sha256'>): boolean {
  return ifMatch === '' || names(tagsOf(ifMatch), file);
}

/** Whether `If-None-Match` matches; weak tags do, too. */
export function isKnown(ifNoneMatch: string, file: Pick<Served, 'sha256'>): boolean {
  return names(
    tagsOf(ifNoneMatch).map((tag) => tag.replace(/^W\//, '')),
    file,
  );
}

const tagsOf = (header: string) => header.split(',').map((tag) => tag.trim());

function names(tags: readonly string[], file: Pick<Served, 'sha256'>): boolean {
  return tags.includes('*') || tags.includes(etagOf(file));
}

function asciiName(name: string): string {
  return name.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_');
}

/** RFC 8187. */
function encodeName(name: string): string {
  return encodeURIComponent(name).replaceAll(/['()*!]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}
