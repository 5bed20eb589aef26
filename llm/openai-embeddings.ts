/** Embeddings of OpenAI or a compatible server. */
import { z } from 'zod';
import { LIMITS } from '../core/limits.ts';
import { startDeadline } from '../lib/deadline.ts';
import type { Credential } from './provider.ts';
import type { EmbeddingAnswer, EmbedOptions, PayForEmbeddings } from './embed-texts.ts';
import { TextsRefused } from './embed-each.ts';
import { estimateTokens } from './estimate-tokens.ts';
import { providerFetch } from './provider-fetch.ts';

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

interface Asked {
  model: string;
  texts: readonly string[];
  options: EmbedOptions;
}

/** A server, and how requests to it are accounted for. */
interface Server {
  credential: Credential;
  pay: PayForEmbeddings;
}

/** Embeds texts, in their order, with one attempt per request. */
export async function embedOverHttp(server: Server, { texts, ...asked }: Asked): Promise<number[][]> {
  const vectors: number[][] = [];
  for (let at = 0; at < texts.length; at += BATCH)
    vectors.push(...(await embedBatch(server, { ...asked, texts: texts.slice(at, at + BATCH) })));
  return vectors;
}

async function embedBatch({ credential, pay }: Server, { model, texts, options }: Asked): Promise<number[][]> {
  const deadline = startDeadline(LIMITS.embeddingTimeoutMs, options.signal);
  const { signal } = deadline;
  try {
    const tokens = texts.reduce((sum, text) => sum + estimateTokens(text), 0);
    const request = { provider: 'openai', model, tokens, signal };
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

/** Rejects if the server does not take the request; an answer that cannot be read is paid for, too. */
async function post(
  { apiKey, baseUrl }: Credential,
  { model, texts, signal }: Omit<Asked, 'options'> & { signal: AbortSignal },
): Promise<EmbeddingAnswer & { body: unknown }> {
  const response = await providerFetch(`${(baseUrl ?? 'https://api.openai.com/v1').replace(/\/+$/, '')}/embeddings`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, input: texts, encoding_format: 'base64' }),
    signal,
  });
  const text = await response.text();
  if (!response.ok) {
    const message = `The embedding model "${model}" answered ${response.status}.`;
    throw isOfTexts(response.status) ? new TextsRefused(message) : new Error(message);
  }
  const body = readJson(text);
  const { model: answered, usage } = counted.safeParse(body).data ?? {};
  // A server that counts an empty prompt does not count.
  return { body, model: answered, tokens: usage?.prompt_tokens || usage?.total_tokens || undefined };
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
