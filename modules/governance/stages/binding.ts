import { toolSuspension } from '../governance.ts';
import type { GatedCall, StageVerdict } from './stage.ts';

/** A run keeps the version of a tool that it pinned, but not a tool that was taken out of the registry or is suspended. */
export function judgeBinding({ governance, tool }: GatedCall): StageVerdict | undefined {
  const suspension = toolSuspension(governance, tool);
  if (suspension) return { kind: 'deny', ...suspension };
  if (!governance.deletedTools.has(tool.id)) return undefined;
  return { kind: 'deny', code: 'tool_deleted', message: `The tool "${tool.name}" was deleted and cannot be called.` };
}
