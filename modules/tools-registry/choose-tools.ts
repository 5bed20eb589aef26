import { cleanText } from '../../core/content.ts';
import { impossible } from '../../core/errors.ts';
import type { FieldError } from '../../core/errors.ts';
import type { ImportedTool } from '../../tools/transport-kind.ts';
import { nameTools, ownNameOf, type PlacedTool } from './name-tools.ts';

/** Selects a server's tools; `include` and `exclude` have the server's names for them. */
export interface ToolChoice {
  /** The server's name: the category of new tools. */
  name?: string | undefined;
  /** Prepended to each name. */
  prefix?: string | undefined;
  include?: readonly string[] | undefined;
  exclude?: readonly string[] | undefined;
}

interface SkippedTool {
  /** The server's name for it. */
  name: string;
  reason: string;
}

export interface ChosenTools {
  tools: ImportedTool[];
  skipped: SkippedTool[];
}

const MAX_NAME = 64;

/**
 * The server's tools that are wanted and can be registered, named as those `registered` from it. Throws 422 for a name
 * that the server does not have.
 */
export function chooseTools(
  found: readonly ImportedTool[],
  choice: ToolChoice,
  registered: readonly PlacedTool[],
): ChosenTools {
  const { name: category, prefix = '', include = [], exclude = [] } = choice;
  const own = new Map(found.map((tool) => [ownNameOf(tool), tool]));
  const errors = [...unknownNames('include', include, own), ...unknownNames('exclude', exclude, own)];
  if (errors.length > 0) throw impossible('The server does not have all of the tools that are named.', errors);
  const chosen: ChosenTools = { tools: [], skipped: [] };
  for (const [name, { fault, ...named }] of nameTools(own, prefix, registered)) {
    const tool = { ...named, ...(category !== undefined && { category }) };
    const reason = exclude.includes(name)
      ? 'It is in `exclude`.'
      : choice.include && !include.includes(name)
        ? 'It is not in `include`.'
        : tool.name.length > MAX_NAME
          ? `Its name would be longer than ${MAX_NAME} characters.`
          : fault;
    if (reason === undefined) chosen.tools.push(tool);
    else chosen.skipped.push({ name: cleanText(name), reason });
  }
  return chosen;
}

function unknownNames(field: string, wanted: readonly string[], own: ReadonlyMap<string, unknown>): FieldError[] {
  return wanted.flatMap((name, place) =>
    own.has(name) ? [] : [{ path: `body.${field}.${place}`, message: `the server has no tool "${name}"` }],
  );
}
