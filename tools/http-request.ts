/** Builds a request from an HTTP tool's templates and a call's arguments; the host is never part of a template. */
import { cleanText } from '../core/content.ts';
import type { FieldError } from '../core/errors.ts';
import { LIMITS } from '../core/limits.ts';
import type { ToolAttempt, ToolTransport } from '../core/tool.ts';
import type { EgressInit } from './egress.ts';
import { jsonataFault } from './evaluate-jsonata.ts';
import type { SecretValues } from './secret-values.ts';
import { asText, fillTemplate, parseTemplate, valueOf } from './template.ts';
import type { TemplateValues } from './template.ts';

export type HttpTransport = Extract<ToolTransport, { type: 'http' }>;

interface HttpRequest {
  url: string;
  init: EgressInit;
}

/** Headers by which Drover says whose call a request is: nobody else's words stand there. */
export const HEADERS_OF_CALLS = /^(idempotency-key|x-drover-run-id|x-drover-tool-call-id|traceparent)$/i;

/** An attempt's request, or why its arguments allow none. */
export function buildRequest(
  transport: HttpTransport,
  attempt: ToolAttempt,
  secrets: SecretValues,
): HttpRequest | { fault: string } {
  const values: TemplateValues = { input: attempt.arguments, secrets };
  const url = urlOf(transport, values);
  if ('fault' in url) return url;
  const body = bodyOf(transport, values);
  const init: EgressInit = {
    method: methodOf(transport),
    headers: headersOf(attempt, { own: ownHeaders(transport, values), hasBody: body !== undefined }),
    body,
    confidential: confidentialOf(transport, secrets),
    maxBytes: Math.min(transport.max_bytes ?? LIMITS.toolOutputBytes, LIMITS.toolOutputBytes),
    maxRedirects: transport.max_redirects,
    timeoutMs: attempt.timeoutMs,
    maySend: attempt.maySend,
    signal: attempt.signal,
  };
  return { url: url.href, init };
}

/** Faults by which a transport could never make a request, for registration. Paths are below `transport`. */
export function checkHttpTransport(transport: HttpTransport): FieldError[] {
  const { path, response, body } = transport;
  const errors: FieldError[] = [];
  const add = (where: string, message: string | undefined) => {
    if (message !== undefined) errors.push({ path: where, message });
  };
  if (/\{\{|%7b%7b/i.test(transport.endpoint))
    add('endpoint', 'is no template: what changes belongs into path or query');
  for (const part of ['headers', 'query'] as const) {
    for (const [name, text] of Object.entries(transport[part] ?? {})) add(`${part}.${name}`, templateFault(text));
  }
  for (const text of textsIn(body)) add('body', templateFault(text));
  if (path !== undefined) add('path', templateFault(path) ?? pathFault(path));
  if (body !== undefined && methodOf(transport) === 'GET') add('body', 'is not sent with GET');
  if (response !== undefined) add('response.expression', jsonataFault(response.expression));
  return errors;
}

/** All texts of a transport that are templates. */
export function templatesOf({ headers, query, path, body }: HttpTransport): string[] {
  return [...Object.values(headers ?? {}), ...Object.values(query ?? {}), path ?? '', ...textsIn(body)];
}

function templateFault(text: string): string | undefined {
  const parts = parseTemplate(text);
  return 'fault' in parts ? parts.fault : undefined;
}

/** Allows only characters that URLs leave unchanged. */
function pathFault(path: string): string | undefined {
  if (!path.startsWith('/')) return 'must begin with /';
  const parts = parseTemplate(path);
  const plain = 'fault' in parts ? [] : parts.flatMap((part) => ('text' in part ? part.text : []));
  if (plain.every((text) => /^[A-Za-z0-9\-._~!$&'()*+,;=:@%/]*$/.test(text)) && !hasDots(plain.join('x')))
    return undefined;
  return 'must be a path as it stands in a URL: encoded, without query, . or ..';
}

function methodOf({ method }: HttpTransport): string {
  return method ?? 'POST';
}

function isQueryMethod(transport: HttpTransport): boolean {
  return methodOf(transport) === 'GET' || methodOf(transport) === 'DELETE';
}

/** By default (docs/tools.md) GET and DELETE carry the arguments in the query; a tool may define its own query. */
function urlOf(transport: HttpTransport, values: TemplateValues): URL | { fault: string } {
  const { endpoint, path, query } = transport;
  if (!URL.canParse(endpoint)) return { fault: 'The endpoint of the tool is no URL.' };
  const url = new URL(endpoint);
  if (path !== undefined) {
    const filled = fillPath(path, values);
    if (typeof filled !== 'string') return filled;
    url.pathname = url.pathname.replace(/\/$/, '') + filled;
  }
  const entries = query
    ? Object.entries(query).map(([name, text]): [string, unknown] => [name, fillTemplate(text, values)])
    : isQueryMethod(transport)
      ? Object.entries(values.input)
      : [];
  for (const [name, value] of entries) addToQuery(url, name, value);
  return url;
}

function fillPath(path: string, values: TemplateValues): string | { fault: string } {
  const parts = parseTemplate(path);
  if ('fault' in parts) return parts;
  let filled = '';
  for (const part of parts) {
    if ('text' in part) {
      filled += part.text;
      continue;
    }
    // An empty value would change the path: to the collection in place of one of its items.
    const text = cleanText(asText(valueOf(part, values)));
    if (text === '') return { fault: `The path ${path} needs a value for each of its references.` };
    filled += encodeURIComponent(text);
  }
  return hasDots(filled) ? { fault: `The path ${path} cannot have . or .. filled in.` } : filled;
}

/** Whether a path has `.` or `..` segments, in any encoding. */
function hasDots(path: string): boolean {
  return /(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)/i.test(path);
}

/** Lists become repeated parameters, objects JSON; nulls are left out. */
function addToQuery(url: URL, name: string, value: unknown): void {
  for (const item of Array.isArray(value) ? (value as unknown[]) : [value]) {
    if (item !== null && item !== undefined) url.searchParams.append(name, asText(item));
  }
}

function bodyOf(transport: HttpTransport, values: TemplateValues): string | undefined {
  if (transport.body !== undefined) return JSON.stringify(fillJson(transport.body, values) ?? null);
  return isQueryMethod(transport) ? undefined : JSON.stringify(values.input);
}

/** A property whose reference is not in the input is left out; in a list it is null. */
function fillJson(template: unknown, values: TemplateValues): unknown {
  if (typeof template === 'string') return fillTemplate(template, values);
  if (Array.isArray(template)) return template.map((item) => fillJson(item, values) ?? null);
  if (template === null || typeof template !== 'object') return template;
  const filled = Object.entries(template).map(([key, item]): [string, unknown] => [key, fillJson(item, values)]);
  return Object.fromEntries(filled.filter(([, item]) => item !== undefined));
}

function ownHeaders({ headers }: HttpTransport, values: TemplateValues): Record<string, string> {
  const filled = Object.entries(headers ?? {}).map(([name, text]): [string, unknown] => [
    name,
    fillTemplate(text, values),
  ]);
  return Object.fromEntries(
    filled.filter(([, value]) => value !== undefined).map(([name, value]) => [name, asText(value)]),
  );
}

/** The tool's own headers may describe the body differently, but never change who is calling. */
function headersOf(
  attempt: ToolAttempt,
  { own, hasBody }: { own: Record<string, string>; hasBody: boolean },
): Record<string, string> {
  const others = Object.entries(own).filter(([name]) => !HEADERS_OF_CALLS.test(name));
  const lower = Object.fromEntries(others.map(([name, value]) => [name.toLowerCase(), value]));
  return {
    accept: 'application/json, text/*;q=0.9, */*;q=0.1',
    ...(hasBody ? { 'content-type': 'application/json' } : {}),
    ...lower,
    'idempotency-key': attempt.idempotencyKey,
    'x-drover-tool-call-id': attempt.toolCallId,
    ...(attempt.runId === '' ? {} : { 'x-drover-run-id': attempt.runId }),
    ...(attempt.traceparent === undefined ? {} : { traceparent: attempt.traceparent }),
  };
}

/** Which parts of the request hold a secret. */
function confidentialOf(transport: HttpTransport, secrets: SecretValues): EgressInit['confidential'] {
  const headers = Object.entries(transport.headers ?? {}).filter(([, text]) => holdsSecret(text));
  return {
    headers: headers.map(([name]) => name.toLowerCase()),
    body: textsIn(transport.body).some(holdsSecret),
    refuseUrl: secrets.refuseUrl,
  };
}

function holdsSecret(text: string): boolean {
  const parts = parseTemplate(text);
  return !('fault' in parts) && parts.some((part) => 'secret' in part);
}

/** All strings in a JSON value. The registering request bounds its depth. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(textsIn);
}
