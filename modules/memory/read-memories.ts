/** Reads memories for the API, of agents in the caller's workspace only. */
import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import { MEMORY_ORIGINS, type MemoryOrigin } from '../../core/memory/entry.ts';
import type { Tx } from '../../db/database.ts';
import { listArchive, type ArchiveRow } from '../../db/memory-archive.ts';
import { findMemory, type MemoryRow } from '../../db/memory-entries.ts';
import { listMemories, listVersions } from '../../db/memory-pages.ts';
import type { Page } from '../../db/page-bytes.ts';
import { requireAgent } from '../agents/read-agents.ts';

export type { ArchiveRow, MemoryRow };

/** A page of an agent's memories, the most important first. Throws 404 for an unknown agent. */
export async function readMemories(
  tx: Tx,
  caller: Caller,
  page: Parameters<typeof listMemories>[1],
): Promise<Page<MemoryRow>> {
  await requireAgent(tx, caller, page.agentId);
  return listMemories(tx, page);
}

/** A page of an agent's archived memories, newest first. Throws 404 for an unknown agent. */
export async function readArchive(
  tx: Tx,
  caller: Caller,
  page: Parameters<typeof listArchive>[1],
): Promise<Page<ArchiveRow>> {
  await requireAgent(tx, caller, page.agentId);
  return listArchive(tx, page);
}

/** A memory. Throws 404, also for an expired one unless `evenEnded`, for a caller that has just written it or deletes it. */
export async function requireMemory(
  tx: Tx,
  caller: Caller,
  of: { agentId: string; id: string; evenEnded?: boolean },
): Promise<MemoryRow> {
  await requireAgent(tx, caller, of.agentId);
  const entry = await findMemory(tx, { ...of, inForce: !of.evenEnded });
  if (!entry) throw notFound('This memory');
  return entry;
}

/** A page of a fact's versions, newest first, optionally below a version, and whether there are more. */
export interface History {
  versions: MemoryRow[];
  more: boolean;
}

const VERSIONS = 50;

/** A memory with the versions of its fact. Throws as `requireMemory` does. */
export async function readWithHistory(
  tx: Tx,
  caller: Caller,
  {
    below,
    limit = VERSIONS,
    ...of
  }: Parameters<typeof requireMemory>[2] & { below?: number | undefined; limit?: number },
): Promise<{ entry: MemoryRow; history: History }> {
  const entry = await requireMemory(tx, caller, of);
  const page = { agentId: of.agentId, rootId: entry.root_id, below, limit };
  const { rows: versions, more } = await listVersions(tx, page);
  return { entry, history: { versions, more } };
}

/** The origin of a client's entry, by the documented `metadata.source`; `user` by default. */
export function originOf(metadata: Readonly<Record<string, unknown>>): MemoryOrigin {
  const { source } = metadata;
  return MEMORY_ORIGINS.find((origin) => origin === source) ?? 'user';
}
