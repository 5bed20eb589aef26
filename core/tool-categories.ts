import type { ToolDefinition } from './tool.ts';

/** The format of a category: a single line, since it appears in prompts. */
export const CATEGORY = /^[\p{L}\p{N}][\p{L}\p{N} _./&+-]{0,63}$/u;

/** The part of a name that can serve as a category; undefined if there is none. */
export function categoryFrom(name: string): string | undefined {
  const plain = name
    .replaceAll(/[^\p{L}\p{N} _./&+-]+/gu, '_')
    .replace(/^[^\p{L}\p{N}]+/u, '')
    .slice(0, 64);
  return CATEGORY.test(plain) ? plain : undefined;
}

const UNNAMED = 'OTHER';

/**
 * Lists an agent's tools by category for its model, in the tools' order, uncategorised ones last; undefined with fewer than
 * two categories.
 */
export function describeCategories(tools: Iterable<Pick<ToolDefinition, 'name' | 'category'>>): string | undefined {
  const all = [...tools];
  const named = new Set(all.flatMap(({ category }) => category ?? []));
  if (named.size < 2) return undefined;
  const groups = new Map<string, string[]>();
  const ordered = [...all.filter(({ category }) => category), ...all.filter(({ category }) => !category)];
  for (const { category = UNNAMED, name } of ordered) groups.set(category, [...(groups.get(category) ?? []), name]);
  const parts = [...groups].map(
    ([category, names]) =>
      `**${category} (${names.length} ${names.length === 1 ? 'tool' : 'tools'}):**\n- ${names.join(', ')}`,
  );
  return [`You have access to ${all.length} tools across ${groups.size} categories:`, ...parts].join('\n\n');
}
