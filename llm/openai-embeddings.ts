/** Embeddings of OpenAI or a compatible server. */
import { z } from 'zod';
import { LIMITS } from '../core/limits.ts';
import { startDeadline } from '../lib/deadline.ts';
import type { Credential } from './provider.ts';
import type { EmbeddingAnswer, EmbedOptions, PayForEmbeddings } from './embed-texts.ts';
import { TextsRefused } from './embed-each.ts';
import { estimateTokens } from './estimate-tokens.ts';
import { modelErrorOf, toModelError } from './model-errors.ts';
import type { FindPace } from './model-pace.ts';
import { providerFetch } from './provider-fetch.ts';

const PROVIDER = 'openai';

/** Texts per request. */
const BATCH = 128;

const answer = z.object({
  data: z.array(z.object({ index: z.int().min(0), embedding: z.union([z.string(), z.array(z.number())]) })),
});

const count = z.int().min(0).optional().catch(undefined);

/** Whatever is odd here spoils no vectors. */
const counted = z.object({
  model: z.string().optional().catch(undefined),
  usage: z.object({ prompt_tokens: count, total_tokens: count }).optional().catch(undefined),
});

const word = z.string().optional().catch(undefined);

/** Why the server does not take a request. */
const problem = z.object({ error: z.object({ type: word, code: word }) });

interface Asked {
  model: string;
  texts: readonly string[];
  options: EmbedOptions;
}

/** A server, and how requests to it are accounted for. */
interface Server {
  credential: Credential;
  pay: PayForEmbeddings;
  paceOf: FindPace;
}

/** Embeds texts, in their order, with one attempt per request. */
export async function embedOverHttp(server: Server, { texts, ...asked }: Asked): Promise<number[][]> {
  const vectors: number[][] = [];
  for (let at = 0; at < texts.length; at += BATCH)
    vectors.push(...(await embedBatch(server, { ...asked, texts: texts.slice(at, at + BATCH) })));
  return vectors;
}

async function embedBatch({ credential, pay, paceOf }: Server, { model, texts, options }: Asked): Promise<number[][]> {
  const deadline = startDeadline(LIMITS.embeddingTimeoutMs, options.signal);
  const { signal } = deadline;
  try {
    const tokens = texts.reduce((sum, text) => sum + estimateTokens(text), 0);
    const isOverdue = () => deadline.ended() === 'timeout';
    const request = { provider: PROVIDER, model, ...paceOf(PROVIDER, model), tokens, signal, isOverdue };
    const { body } = await pay(options.payer, request, () => post(credential, { model, texts, signal }));
    const { data } = answer.parse(body);
    const byIndex = new Map(data.map(({ index, embedding }) => [index, embedding]));
    return texts.map((_, index) => {
      const embedding = byIndex.get(index);
      if (embedding === undefined) throw new Error(`The embedding model "${model}" has left a text out.`);
      return typeof embedding === 'string' ? decode(embedding) : embedding;
    });
  } finally {
    deadline.clear();
  }
}

/** Rejects with a ModelError, or TextsRefused, if the server does not take the request; an answer that cannot be read is paid for, too. */
async function post(
  { apiKey, baseUrl }: Credential,
  { model, texts, signal }: Omit<Asked, 'options'> & { signal: AbortSignal },
): Promise<EmbeddingAnswer & { body: unknown }> {
  const asked = providerFetch(`${(baseUrl ?? 'https://api.openai.com/v1').replace(/\/+$/, '')}/embeddings`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, input: texts, encoding_format: 'base64' }),
    signal,
  });
  const answered = asked.then(async (response) => ({ response, text: await response.text() }));
  const { response, text } = await answered.catch((error: unknown) => {
    throw signal.aborted ? error : toModelError({ provider: PROVIDER, baseUrl }, error);
  });
  const body = readJson(text);
  if (!response.ok) {
    const { status, headers } = response;
    const message = `The embedding model "${model}" answered ${status}.`;
    if (isOfTexts(status)) throw new TextsRefused(message);
    throw modelErrorOf(PROVIDER, { message, status, headers, ...problem.safeParse(body).data?.error });
  }
  const { model: named, usage } = counted.safeParse(body).data ?? {};
  // A server that counts an empty prompt does not count.
  return { body, model: named, tokens: usage?.prompt_tokens || usage?.total_tokens || undefined };
}

/** Undefined if it is no JSON. */
function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether an answer says that the server does not take these texts; the others speak of the key, the model, or the moment. */
function isOfTexts(status: number): boolean {
  return status >= 400 && status < 500 && ![401, 403, 404, 408, 429].includes(status);
}

/** 32-bit floats, little-endian. */
function decode(base64: string): number[] {
  const bytes = Buffer.from(base64, 'base64');
  return Array.from({ length: Math.floor(bytes.length / 4) }, (_, index) => bytes.readFloatLE(index * 4));
}
