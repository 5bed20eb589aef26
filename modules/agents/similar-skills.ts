/** Skills under other names: `web research` may match `internet search`. */
import { LEAST_SIMILARITY, mayBeSimilar, type SimilarSkills } from '../../core/matching.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Tx } from '../../db/database.ts';
import {
  addSkills,
  listSimilarSkills,
  listTenantsToEmbed,
  listUnembeddedSkills,
  listUntriedSkills,
  storeSkillEmbeddings,
} from '../../db/skills.ts';
import { startDeadline } from '../../lib/deadline.ts';
import type { EmbeddingOwner } from '../../llm/embed-texts.ts';
import { toVector } from '../../llm/embeddings.ts';
import type { ProcessContext } from '../process-context.ts';
import { forEachIsolated } from '../for-each-isolated.ts';

/** For callers that wait, and for background work. */
export const HASTY = { withinMs: LIMITS.recallEmbeddingMs, isFinal: false };
export const PATIENT = { withinMs: LIMITS.embeddingTimeoutMs, isFinal: true };

type SkillContext = Pick<ProcessContext, 'db' | 'embeddings' | 'log'>;

/** Known skills with nearly the same meaning as each of these. Skills never looked up have none. */
export async function readSimilarSkills(
  { embeddings }: Pick<SkillContext, 'embeddings'>,
  tx: Tx,
  names: readonly string[],
): Promise<SimilarSkills> {
  const similar = new Map<string, ReadonlyMap<string, number>>();
  const model = embeddings.modelFor(undefined);
  if (model === undefined) return similar;
  for (const name of new Set(names)) {
    const found = await listSimilarSkills(tx, { name, model, least: LEAST_SIMILARITY });
    const alike = found.filter((each) => mayBeSimilar(name, each.name));
    similar.set(name, new Map(alike.map((each) => [each.name, each.similarity])));
  }
  return similar;
}

/** Skills among these that were never looked up. */
export function untriedSkills(
  { embeddings }: Pick<SkillContext, 'embeddings'>,
  tx: Tx,
  names: readonly string[],
): Promise<string[]> {
  return listUntriedSkills(tx, { names: [...new Set(names)], model: embeddings.modelFor(undefined) });
}

/**
 * Embeds these skills, and some that wait for it. If no vectors come within `withinMs`, only names match: for now, or,
 * with `isFinal`, for some minutes, so that waiting work is not blocked for ever.
 */
export async function learnSkills(
  context: SkillContext,
  { names, ...owner }: EmbeddingOwner & { names: readonly string[] },
  { withinMs, isFinal }: { withinMs: number; isFinal: boolean },
): Promise<void> {
  const { db } = context;
  const { tenantId } = owner;
  const model = context.embeddings.modelFor(undefined);
  const untried = await db.withTenant(tenantId, async (tx) => {
    const missing = await listUntriedSkills(tx, { names: [...new Set(names)], model });
    await addSkills(tx, tenantId, missing);
    const others =
      model === undefined ? [] : await listUnembeddedSkills(tx, { model, limit: LIMITS.skillsEmbeddedTogether });
    return [...new Set([...missing, ...others])];
  });
  if (untried.length === 0) return;
  const vectors = model === undefined ? undefined : await vectorsOf(context, { owner, model, withinMs }, untried);
  const rows = untried.map((name, index) => ({ name, vector: toVector(vectors?.[index]) }));
  const stored = vectors ? rows : rows.filter(({ name }) => isFinal && names.includes(name));
  if (stored.length === 0) return;
  await db.withTenant(tenantId, (tx) => storeSkillEmbeddings(tx, { model: model ?? null, rows: stored }));
}

async function vectorsOf(
  { embeddings, log }: SkillContext,
  { owner, model, withinMs }: { owner: EmbeddingOwner; model: string; withinMs: number },
  names: readonly string[],
): Promise<(number[] | undefined)[] | undefined> {
  const deadline = startDeadline(withinMs, new AbortController().signal);
  try {
    return await embeddings.embedEach(
      model,
      names.map((name) => name.replaceAll(/[_-]+/g, ' ')),
      { signal: deadline.signal, payer: { ...owner, purpose: 'skill_embeddings' }, isWaitedFor: true },
    );
  } catch (error) {
    log.warn({ err: error, model }, 'skills have no vectors: agents are found by the names of their skills alone');
    return undefined;
  } finally {
    deadline.clear();
  }
}

/** Embeds waiting skills of all tenants, some of each. Returns the number of tenants. */
export async function embedSkills(context: SkillContext): Promise<number> {
  if (context.embeddings.modelFor(undefined) === undefined) return 0;
  const rows = await listTenantsToEmbed(context.db, LIMITS.sweepRows);
  const done = await forEachIsolated(context.log, { rows }, ({ tenant_id: tenantId }) =>
    learnSkills(context, { tenantId, names: [] }, PATIENT),
  );
  return done.length;
}
