/** Makes a tool of a remote agent from its card (A2A 1.0, section 4.4). */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { beginningOf } from '../../core/content.ts';
import { impossible, messageOf } from '../../core/errors.ts';
import { categoryFrom } from '../../core/tool-categories.ts';
import { DEFAULT_RISK } from '../../core/tool.ts';
import { uniqueName } from '../unique-name.ts';
import type { ImportedTool, ServerToList } from '../transport-kind.ts';
import { unknownEncodingOf } from '../response-body.ts';
import { sentHeaders, type A2aTransport, type Remote } from './rpc.ts';

const card = z.looseObject({
  name: z.string().min(1).max(1000),
  description: z.string().max(20_000).default(''),
  supportedInterfaces: z.array(
    z.looseObject({
      url: z.string(),
      protocolBinding: z.string(),
      protocolVersion: z.string(),
      tenant: z.string().max(500).optional(),
    }),
  ),
  skills: z.array(z.looseObject({ name: z.string(), description: z.string().default('') })).default([]),
});
type Card = z.output<typeof card>;

const WELL_KNOWN = '.well-known/agent-card.json';
const CARD_MS = 30_000;
const MAX_CARD_BYTES = 1024 * 1024;
const MAX_DESCRIPTION = 4000;
/** Without the secret, the interface would be another one. */
const REPEATED = 'The card repeats a secret of this request in the URL or the tenant of its interface.';
/** The credentials that go with each message belong to the card's origin. */
const ELSEWHERE = 'The card names an interface at another origin than its own: register the tool with that endpoint.';

/**
 * Reads the agent as its single tool. Throws a `DroverError` (422) if its card cannot be read, has no interface that
 * we speak, or repeats a secret in it.
 */
export async function listRemoteAgent(
  { server, secrets }: ServerToList<A2aTransport>,
  egress: Remote['egress'],
): Promise<ImportedTool[]> {
  const url = cardUrlOf(server.endpoint);
  const read = await readCard(url, { transport: server, secrets, egress });
  const spoken = read.supportedInterfaces.find(
    ({ protocolBinding, protocolVersion }) => protocolBinding === 'JSONRPC' && protocolVersion.startsWith('1.'),
  );
  if (!spoken || !URL.canParse(spoken.url)) throw impossible('The agent does not speak A2A 1.0 in JSON-RPC.');
  const endpoint = new URL(spoken.url);
  if (endpoint.origin !== url.origin) throw impossible(ELSEWHERE);
  const made = { endpoint: endpoint.href, ...(spoken.tenant && { tenant: spoken.tenant }) };
  if (!isDeepStrictEqual(secrets.redact(made), made)) throw impossible(REPEATED);
  return [toTool(secrets.redact(read), { ...server, ...made })];
}

/** The card's own URL, or the well-known one below the endpoint. */
function cardUrlOf(endpoint: string): URL {
  const url = new URL(endpoint);
  if (!url.pathname.endsWith('.json')) url.pathname = `${url.pathname.replace(/\/$/, '')}/${WELL_KNOWN}`;
  return url;
}

async function readCard(url: URL, remote: Remote): Promise<Card> {
  const refuse = (why: string) => impossible(`The card of the agent could not be read: ${remote.secrets.redact(why)}`);
  const { headers, confidential } = sentHeaders(remote);
  const signal = new AbortController().signal;
  const limits = { maxBytes: MAX_CARD_BYTES, maxRedirects: 0, timeoutMs: CARD_MS, signal };
  const answer = await remote.egress.fetch(url.href, { headers, confidential, ...limits }).catch((error: unknown) => {
    throw refuse(messageOf(error));
  });
  if (answer.status !== 200) throw refuse(`it answered with HTTP ${answer.status}.`);
  const unreadable = unknownEncodingOf(answer);
  if (unreadable) throw refuse(`${unreadable.message}.`);
  const parsed = card.safeParse(jsonOf(answer.body.toString()));
  if (!parsed.success) throw refuse('it is no card.');
  return parsed.data;
}

function toTool({ name, description, skills }: Card, transport: A2aTransport): ImportedTool {
  const can = skills.map((skill) => `- ${skill.name}: ${skill.description}`).join('\n');
  const category = categoryFrom(name);
  return {
    name: uniqueName(name, new Set()),
    display_name: beginningOf(name, 200),
    ...(category === undefined ? {} : { category }),
    description: beginningOf(`${description || name}${can === '' ? '' : `\n\n${can}`}`, MAX_DESCRIPTION),
    input_schema: {
      type: 'object',
      properties: { message: { type: 'string', description: 'What it is to do, with all that it needs to know.' } },
      required: ['message'],
    },
    transport,
    risk_level: DEFAULT_RISK,
    annotations: {},
  };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
