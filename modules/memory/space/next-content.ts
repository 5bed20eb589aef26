/** The content of a fragment after a write. */
import { mergeThreeWay } from '../../../core/memory/merge.ts';
import type { Tx } from '../../../db/database.ts';
import { findVersion, type FragmentContent, type FragmentRow } from '../../../db/memory-fragments.ts';
import { provenanceOf } from './store-fragment.ts';

/** The parts of a write that decide the content. */
interface ContentWrite {
  content: FragmentContent;
  agent_id?: string | undefined;
  provenance?: Record<string, unknown> | undefined;
  conflict_type?: 'concurrent_write' | 'version_mismatch' | 'semantic_conflict' | undefined;
}

export interface NextContent {
  content: FragmentContent;
  provenance: Record<string, unknown>;
  merged: boolean;
  conflicts: string[];
  /** People have to decide. */
  unresolved: boolean;
  /** It replaces the content before. */
  replaces: boolean;
}

/** Returns the last write, a merge of both, or both of them. */
export async function nextContent(
  tx: Tx,
  { fragment, write, baseVersion }: { fragment: FragmentRow; write: ContentWrite; baseVersion: number | undefined },
): Promise<NextContent> {
  const plain = {
    content: write.content,
    provenance: {},
    merged: false,
    conflicts: [],
    unresolved: false,
    replaces: true,
  };
  if (write.conflict_type === 'semantic_conflict') {
    const sources = { a: fragment.provenance, b: provenanceOf(write) };
    const data = { conflict_detected: true, version_a: fragment.content.data, version_b: write.content.data, sources };
    const content = { type: 'structured' as const, data };
    return { ...plain, content, conflicts: ['content'], unresolved: true, replaces: false };
  }
  const base =
    baseVersion === undefined || baseVersion === fragment.version
      ? undefined
      : await findVersion(tx, { id: fragment.id, version: baseVersion });
  // Without a base version the last writer wins, with provenance.
  if (!base) return plain;
  const { data, conflicts } = mergeThreeWay(base.content.data, fragment.content.data, write.content.data);
  const provenance = { merged_from: [fragment.version, 'write'], base_version: baseVersion };
  const content = [fragment.content, write.content].find((side) => side.data === data) ?? contentWith(data);
  return { content, provenance, merged: true, conflicts, unresolved: conflicts.length > 0, replaces: false };
}

/** Merged content that equals neither side. */
function contentWith(data: unknown): FragmentContent {
  return { type: typeof data === 'string' ? 'text' : 'structured', data };
}
