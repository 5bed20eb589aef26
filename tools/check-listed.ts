/** The schemas of tools that a server lists: a foreign list of any length, checked before its tools are registered. */
import { inSlices } from '../lib/in-slices.ts';
import type { ImportedTool } from './transport-kind.ts';
import type { ArgumentValidator } from './validate-arguments.ts';

/** For a whole list: a thousand ordinary tools take less. Others get their turn meanwhile. */
const LIST_MS = 5000;

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
