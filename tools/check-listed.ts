/** Tools that a server lists: a foreign list of any length, checked before its tools are registered. */
import { cleanJson, isClean } from '../core/content.ts';
import { inSlices } from '../lib/in-slices.ts';
import type { ImportedTool } from './transport-kind.ts';
import type { ArgumentValidator } from './validate-arguments.ts';

/** Of CPU, for a whole list: a thousand ordinary tools take less. Others get their turn meanwhile. */
const LIST_MS = 5000;

/**
 * The tools with texts that can be stored, as those that clients register. A tool whose own name or address cannot is another
 * one with any other: it has a `fault`.
 */
export function storableTools(listed: readonly ImportedTool[]): ImportedTool[] {
  return listed.map(({ transport, ...told }) => {
    const tool = { ...cleanJson(told), transport };
    return isClean(transport) ? tool : { ...tool, fault: tool.fault ?? UNSTORABLE };
  });
}

const UNSTORABLE =
  'Its name or its address at its server has a NUL or half of a surrogate pair, which cannot be stored.';

/** The tools, with a `fault` for each whose schema cannot be used, or that the time was not enough for. */
export async function checkListed(
  listed: readonly ImportedTool[],
  { together }: Pick<ArgumentValidator, 'together'>,
): Promise<ImportedTool[]> {
  const { checkSchema } = together(LIST_MS);
  const checked: ImportedTool[] = [];
  await inSlices(listed, (tool) => {
    const [fault] = tool.fault === undefined ? checkSchema(tool.input_schema) : [];
    const at = fault && fault.path !== '' ? `${fault.path}: ` : '';
    checked.push(fault ? { ...tool, fault: `Its input schema cannot be used: ${at}${fault.message}` } : tool);
  });
  return checked;
}
