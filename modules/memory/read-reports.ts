/** Reports on an agent's memory: what its turns taught, where an entry was used and why, what it costs. */
import type { Caller } from '../../core/caller.ts';
import type { Tx } from '../../db/database.ts';
import { listExtractions, type ExtractionRow } from '../../db/memory-extractions.ts';
import { readMemoryUsage, type MemoryUsage } from '../../db/memory-reports.ts';
import { listMemoryUses, type MemoryUseRow } from '../../db/memory-uses.ts';
import { requireAgent } from '../agents/read-agents.ts';
import { requireMemory } from './read-memories.ts';

export type { ExtractionRow, MemoryUsage, MemoryUseRow };

/** A page of what an agent has learnt from its turns, newest first. Throws 404 for an unknown agent. */
export async function readExtractions(
  tx: Tx,
  caller: Caller,
  page: Parameters<typeof listExtractions>[1],
): Promise<ExtractionRow[]> {
  await requireAgent(tx, caller, page.agentId);
  return listExtractions(tx, page);
}

/** A page of an entry's uses with their reasons, newest first. Throws 404. */
export async function readMemoryUses(
  tx: Tx,
  caller: Caller,
  { agentId, ...page }: Parameters<typeof listMemoryUses>[1] & { agentId: string },
): Promise<MemoryUseRow[]> {
  await requireMemory(tx, caller, { agentId, id: page.memoryId });
  return listMemoryUses(tx, page);
}

/** How much an agent remembers, and what that has cost. Throws 404 for an unknown agent. */
export async function readUsageOfMemory(tx: Tx, caller: Caller, agentId: string): Promise<MemoryUsage> {
  await requireAgent(tx, caller, agentId);
  return readMemoryUsage(tx, agentId);
}
