/** Memories in the API's form. */
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { LIMITS } from '../../core/limits.ts';
import { isTrusted, MEMORY_ORIGINS, MEMORY_STATUSES, MEMORY_TYPES, memoryType } from '../../core/memory/entry.ts';
import { readVectorName } from '../../core/memory/vector-names.ts';
import { VALIDITIES } from '../../core/memory/validity.ts';
import { hasScope } from '../../core/scopes.ts';
import type { ArchiveRow, History, MemoryRow } from '../../modules/memory/read-memories.ts';
import type { Recalled } from '../../modules/memory/recall.ts';
import { threadNameParam } from '../kit/external-ids.ts';
import { nextOf } from '../kit/paging.ts';
import { idParam, timeParam } from '../kit/validate.ts';

const share = z.number().min(0).max(1);
const content = z.string().trim().min(1).max(LIMITS.memoryChars);
const metadata = z.record(z.string(), z.unknown()).refine((value) => JSON.stringify(value).length <= 65_536, {
  message: 'is larger than 64 KiB',
});
const threadId = threadNameParam.describe('A conversation: a thread of Drover’s, or one of your own.');

export const newMemory = z
  .strictObject({
    content,
    memory_type: memoryType,
    thread_id: threadId.nullish(),
    importance: share.optional(),
    relevance_score: share.optional(),
    metadata: metadata
      .nullish()
      .describe(
        '`subject`, `speaker`, `role`, `occurred_at`, `conversation_id`, `tags`, `profile` mean something to recall.',
      ),
    summary: z.string().max(LIMITS.memoryChars).optional(),
    valid_from: timeParam.optional(),
    valid_to: timeParam.optional(),
    expires_at: timeParam.nullish(),
  })
  .refine(({ valid_from: from, valid_to: to }) => !from || !to || from <= to, {
    path: ['valid_to'],
    message: 'is before valid_from',
  });

export const memoryPatch = z
  .strictObject({
    content: content.optional(),
    memory_type: memoryType.optional(),
    importance: share.optional(),
    metadata: metadata.optional(),
    status: z.enum(['active', 'disputed', 'archived']).optional(),
    valid_to: timeParam.optional(),
    expires_at: timeParam.optional(),
    reason: z.string().max(1000).optional(),
  })
  .refine((patch) => Object.entries(patch).some(([field, value]) => field !== 'reason' && value !== undefined), {
    message: 'changes nothing',
  });

export const memoryQuery = z.strictObject({
  query: z.string().trim().min(1).max(5000),
  thread_id: threadId.nullish(),
  memory_types: z.array(memoryType).min(1).nullish(),
  top_k: z.int().min(1).max(LIMITS.recallEntries).default(LIMITS.recallDefault),
  min_score: share.optional(),
  at: timeParam.optional().describe('When it is asked, for times such as `last week`; now where absent.'),
});

export const forgetRequest = z
  .strictObject({
    ids: z.array(idParam).min(1).max(1000).optional(),
    query: z.string().trim().min(1).max(5000).optional().describe('Entries with all of its words.'),
    subject: z.string().min(1).max(1000).optional().describe('Entries whose `metadata.subject` is exactly this.'),
    dry_run: z.boolean().default(false),
  })
  .refine((body) => [body.ids, body.query, body.subject].filter((each) => each !== undefined).length === 1, {
    message: 'needs one of ids, query and subject',
  });

export const forgotten = z.object({
  removed: z.object({ entries: z.int(), summaries: z.int(), archive: z.int(), events: z.int() }),
  ids: z.array(z.uuid()).describe('None for a key without `memory:read`.'),
});

const stamp = z.iso.datetime().nullable();

export const memory = z
  .object({
    id: z.uuid(),
    entry_id: z.uuid(),
    agent_id: z.uuid(),
    thread_id: z.string().nullable(),
    memory_type: z.enum(MEMORY_TYPES),
    content: z.string(),
    summary: z.string().nullable(),
    status: z.enum(MEMORY_STATUSES),
    origin: z.enum(MEMORY_ORIGINS),
    trusted: z.boolean(),
    provenance: z.object({
      run_id: z.uuid().nullable(),
      turn_id: z.uuid().nullable(),
      seq: z.int().nullable(),
      key_id: z.uuid().nullable(),
      made_from: z.array(z.uuid()).nullable(),
    }),
    version: z.int(),
    supersedes: z.uuid().nullable(),
    superseded_by: z.uuid().nullable(),
    reason: z.string().nullable(),
    importance: z.number(),
    relevance_score: z.number(),
    recency_score: z.number(),
    access_count: z.int(),
    last_accessed: stamp,
    metadata: z.record(z.string(), z.unknown()),
    valid_from: stamp,
    valid_to: stamp,
    expires_at: stamp,
    embedding_generated: z.boolean(),
    embedding_model: z.string().nullable(),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'MemoryEntry' });

const version = memory.pick({
  id: true,
  version: true,
  content: true,
  status: true,
  reason: true,
  provenance: true,
  valid_from: true,
  valid_to: true,
  created_at: true,
});

export const memoryWithHistory = memory.extend({
  history: z
    .array(version)
    .describe('The versions of the fact, newest first: as many as are asked for and have room on a page.'),
  next_cursor: z.string().optional().describe('For the versions before those.'),
});

export const recalledMemory = memory.extend({
  score: z.number().describe('From 0 to 1.'),
  why: z
    .record(z.string(), z.number())
    .describe('What each signal has added to the score; below 0 for `validity`, where it does not hold.'),
  validity: z
    .enum(VALIDITIES)
    .describe('Whether it holds when it is asked: `ended` after `valid_to`, `not_yet` before `valid_from`.'),
});

export const archivedMemory = z.object({
  id: z.uuid(),
  memory_type: z.enum(MEMORY_TYPES),
  content: z.string(),
  reason: z.string(),
  archived_at: z.iso.datetime(),
});

const HOUR_MS = 3_600_000;

/** Recency: e to the power of minus the hours since its last use, over a constant. */
function recencyOf(row: MemoryRow): number {
  const hours = Math.max(0, Date.now() - (row.last_accessed ?? row.created_at).getTime()) / HOUR_MS;
  return Math.exp(-hours / LIMITS.memoryHalfLifeHours);
}

const text = (at: Date | null) => at?.toISOString() ?? null;

export function presentMemory(row: MemoryRow): z.input<typeof memory> {
  const name = row.embedding_model === null ? undefined : readVectorName(row.embedding_model);
  const model = name === undefined || name.isRefused ? null : name.model;
  return {
    id: row.id,
    entry_id: row.id,
    agent_id: row.agent_id,
    thread_id: row.thread_id,
    memory_type: row.memory_type,
    content: row.content,
    summary: row.summary,
    status: row.status,
    origin: row.origin,
    trusted: isTrusted(row.origin),
    provenance: {
      run_id: row.run_id,
      turn_id: row.turn_id,
      seq: row.seq,
      key_id: row.key_id,
      made_from: row.made_from,
    },
    version: row.version,
    supersedes: row.supersedes,
    superseded_by: row.superseded_by,
    reason: row.reason,
    importance: row.importance,
    relevance_score: row.relevance_score,
    recency_score: recencyOf(row),
    access_count: row.access_count,
    last_accessed: text(row.last_accessed),
    metadata: row.metadata,
    valid_from: text(row.valid_from),
    valid_to: text(row.valid_to),
    expires_at: text(row.expires_at),
    embedding_generated: model !== null,
    embedding_model: model,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

export function presentWithHistory(entry: MemoryRow, { versions, more }: History): z.input<typeof memoryWithHistory> {
  const history = versions.map(presentMemory).map((each) => version.parse(each));
  return { ...presentMemory(entry), history, ...nextOf(versions, more, (row) => row.version) };
}

/** For a caller that has changed it: without its content, if the caller may not read that. */
export function presentChanged({ scopes }: Caller, entry: MemoryRow, read: History): z.input<typeof memoryWithHistory> {
  const shown = presentWithHistory(entry, read);
  if (hasScope(scopes, 'memory:read')) return shown;
  return { ...shown, content: '', summary: null, reason: null, metadata: {}, history: [], next_cursor: undefined };
}

export function presentRecalled({ entry, score, why, validity }: Recalled): z.input<typeof recalledMemory> {
  return { ...presentMemory(entry), score, why, validity };
}

export function presentArchived(row: ArchiveRow): z.input<typeof archivedMemory> {
  return {
    id: row.id,
    memory_type: row.entry.memory_type,
    content: row.entry.content,
    reason: row.reason,
    archived_at: row.archived_at.toISOString(),
  };
}
