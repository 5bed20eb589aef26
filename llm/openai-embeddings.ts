/** Embeddings of OpenAI or a compatible server. */
import { z } from 'zod';
import { LIMITS } from '../core/limits.ts';
import { startDeadline } from '../lib/deadline.ts';
import type { Credential } from './provider.ts';
import { TextsRefused } from './embed-each.ts';
import { providerFetch } from './provider-fetch.ts';

/** Texts per request. */
const BATCH = 128;

const answer = z.object({
  data: z.array(z.object({ index: z.int().min(0), embedding: z.union([z.string(), z.array(z.number())]) })),
});

interface Asked {
  model: string;
  texts: readonly string[];
  signal: AbortSignal;
}

/** Embeds texts, in their order, with one attempt per request. */
export async function embedOverHttp(credential: Credential, { model, texts, signal }: Asked): Promise<number[][]> {
  const vectors: number[][] = [];
  for (let at = 0; at < texts.length; at += BATCH)
    vectors.push(...(await embedBatch(credential, { model, texts: texts.slice(at, at + BATCH), signal })));
  return vectors;
}

async function embedBatch({ apiKey, baseUrl }: Credential, { model, texts, signal }: Asked): Promise<number[][]> {
  const deadline = startDeadline(LIMITS.embeddingTimeoutMs, signal);
  try {
    const response = await providerFetch(`${(baseUrl ?? 'https://api.openai.com/v1').replace(/\/+$/, '')}/embeddings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, input: texts, encoding_format: 'base64' }),
      signal: deadline.signal,
    });
    const text = await response.text();
    if (!response.ok) {
      const message = `The embedding model "${model}" answered ${response.status}.`;
      throw isOfTexts(response.status) ? new TextsRefused(message) : new Error(message);
    }
    const { data } = answer.parse(JSON.parse(text));
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

/** Whether an answer says that the server does not take these texts; the others speak of the key, the model, or the moment. */
function isOfTexts(status: number): boolean {
  return status >= 400 && status < 500 && ![401, 403, 404, 408, 429].includes(status);
}

/** 32-bit floats, little-endian. */
function decode(base64: string): number[] {
  const bytes = Buffer.from(base64, 'base64');
  return Array.from({ length: Math.floor(bytes.length / 4) }, (_, index) => bytes.readFloatLE(index * 4));
}
