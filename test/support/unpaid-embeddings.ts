/** Embeddings of which no account is kept. */
import type { EmbeddingPayer, PayForEmbeddings } from '../../llm/embed-texts.ts';

export const unpaid: PayForEmbeddings = (_payer, _request, send) => send();

export const forNobody: EmbeddingPayer = {
  tenantId: '00000000-0000-0000-0000-000000000000',
  purpose: 'memory_embeddings',
};
