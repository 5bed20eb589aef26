/** Stands in for a collector of OpenTelemetry: takes spans over OTLP, as protobuf or JSON, and shows them decoded. */
import { createServer } from 'node:http';
import { gunzipSync } from 'node:zlib';
import type { AddressInfo } from 'node:net';
import { waitUntil } from './wait-until.ts';

export interface SeenSpan {
  traceId: string;
  spanId: string;
  /** Empty for the first of a trace. */
  parentSpanId: string;
  name: string;
  /** As in OTLP: 1 internal, 2 server, 3 client. */
  kind: number;
  startMs: number;
  endMs: number;
  attributes: Record<string, unknown>;
  events: { name: string; attributes: Record<string, unknown> }[];
  /** 2: error. */
  status: number;
  /** Of the process that has sent it. */
  resource: Record<string, unknown>;
}

export interface Collector {
  url: string;
  spans: SeenSpan[];
  requests: { path: string; headers: Record<string, unknown>; bytes: number }[];
  /** What it answers from now on; 200 at first. */
  answers: (status: number | 'nothing') => void;
  /** Waits for a span that meets the condition. */
  span: (what: string, isIt: (span: SeenSpan) => boolean) => Promise<SeenSpan>;
  close: () => Promise<void>;
}

export async function startCollector(port = 0): Promise<Collector> {
  const spans: SeenSpan[] = [];
  const requests: Collector['requests'] = [];
  let status: number | 'nothing' = 200;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const sent = Buffer.concat(chunks);
      const body = request.headers['content-encoding'] === 'gzip' ? gunzipSync(sent) : sent;
      requests.push({ path: request.url ?? '', headers: request.headers, bytes: sent.length });
      const isJson = request.headers['content-type'] === 'application/json';
      if (status === 200)
        spans.push(...(isJson ? spansOfJson(JSON.parse(body.toString()) as Json) : spansOfProtobuf(body)));
      if (status === 'nothing') return;
      response.writeHead(status, { 'content-type': request.headers['content-type'] ?? '' }).end();
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(port, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    requests,
    answers: (next) => {
      status = next;
    },
    async span(what, isIt) {
      let found: SeenSpan | undefined;
      await waitUntil(what, () => (found = spans.find(isIt)) !== undefined);
      return found as SeenSpan;
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

type Json = Record<string, unknown>;
const listOf = (value: unknown) => (value ?? []) as Json[];

function spansOfJson(request: Json): SeenSpan[] {
  const attributesOf = (of: unknown) =>
    Object.fromEntries(listOf(of).map(({ key, value }) => [key as string, valueOfJson(value as Json)]));
  return listOf(request['resourceSpans']).flatMap(({ resource, scopeSpans }) =>
    listOf(scopeSpans).flatMap(({ spans }) =>
      listOf(spans).map((span) => ({
        traceId: span['traceId'] as string,
        spanId: span['spanId'] as string,
        parentSpanId: (span['parentSpanId'] ?? '') as string,
        name: span['name'] as string,
        kind: span['kind'] as number,
        startMs: Number(span['startTimeUnixNano']) / 1e6,
        endMs: Number(span['endTimeUnixNano']) / 1e6,
        attributes: attributesOf(span['attributes']),
        events: listOf(span['events']).map((event) => ({
          name: event['name'] as string,
          attributes: attributesOf(event['attributes']),
        })),
        status: ((span['status'] as Json)['code'] ?? 0) as number,
        resource: attributesOf((resource as Json)['attributes']),
      })),
    ),
  );
}

function valueOfJson(value: Json): unknown {
  const { arrayValue } = value;
  if (arrayValue !== undefined) return listOf((arrayValue as Json)['values']).map(valueOfJson);
  return value['intValue'] === undefined ? Object.values(value)[0] : Number(value['intValue']);
}

/** A field of a protobuf message: its number with its bytes, or with its number. */
type Field = [field: number, value: Buffer | bigint];

/** The fields of a message, by the wire format alone. */
function* fieldsOf(message: Buffer): Generator<Field> {
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message.readUInt8(at++);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.length) {
    const tag = Number(varint());
    const [field, type] = [tag >> 3, tag & 7];
    if (type === 0) yield [field, varint()];
    else {
      const length = type === 2 ? Number(varint()) : type === 1 ? 8 : 4;
      yield [field, message.subarray(at, at + length)];
      at += length;
    }
  }
}

const allOf = (message: Buffer, wanted: number) =>
  [...fieldsOf(message)].flatMap(([field, value]) => (field === wanted && value instanceof Buffer ? [value] : []));
const oneOf = (message: Buffer, wanted: number) => allOf(message, wanted)[0] ?? Buffer.alloc(0);
const numberOf = (message: Buffer, wanted: number) =>
  Number([...fieldsOf(message)].find(([field]) => field === wanted)?.[1] ?? 0);

function spansOfProtobuf(request: Buffer): SeenSpan[] {
  return allOf(request, 1).flatMap((ofResource) =>
    allOf(ofResource, 2).flatMap((ofScope) =>
      allOf(ofScope, 2).map((span) => ({
        traceId: oneOf(span, 1).toString('hex'),
        spanId: oneOf(span, 2).toString('hex'),
        parentSpanId: oneOf(span, 4).toString('hex'),
        name: oneOf(span, 5).toString(),
        kind: numberOf(span, 6),
        startMs: Number(oneOf(span, 7).readBigUInt64LE()) / 1e6,
        endMs: Number(oneOf(span, 8).readBigUInt64LE()) / 1e6,
        attributes: attributesIn(span, 9),
        events: allOf(span, 11).map((event) => ({
          name: oneOf(event, 2).toString(),
          attributes: attributesIn(event, 3),
        })),
        status: numberOf(oneOf(span, 15), 3),
        resource: attributesIn(oneOf(ofResource, 1), 1),
      })),
    ),
  );
}

function attributesIn(message: Buffer, field: number): Record<string, unknown> {
  return Object.fromEntries(allOf(message, field).map((pair) => [oneOf(pair, 1).toString(), valueIn(oneOf(pair, 2))]));
}

function valueIn(value: Buffer): unknown {
  const [[field, of] = [0, 0n]] = [...fieldsOf(value)];
  if (!(of instanceof Buffer)) return field === 2 ? of === 1n : Number(of);
  if (field === 4) return of.readDoubleLE();
  return field === 5 ? allOf(of, 1).map(valueIn) : of.toString();
}
