import { bindingFault, bindingOf } from '../../../core/tool-bindings.ts';
import { toolSuspension } from '../governance.ts';
import type { GatedCall, StageVerdict } from './stage.ts';

/** A run keeps the version of a tool that it pinned, but not one that was taken out of the registry or is suspended; and the agent's binding must let it be called. */
export function judgeBinding({
  governance,
  tool,
  definition,
  isOverRate,
}: Pick<GatedCall, 'governance' | 'tool' | 'definition' | 'isOverRate'>): StageVerdict | undefined {
  const suspension = toolSuspension(governance, tool);
  if (suspension) return { kind: 'deny', ...suspension };
  const binding = bindingOf(definition, tool);
  const fault = binding && bindingFault(binding, tool, isOverRate);
  if (fault) return { kind: 'deny', ...fault };
  if (!governance.deletedTools.has(tool.id)) return undefined;
  return { kind: 'deny', code: 'tool_deleted', message: `The tool "${tool.name}" was deleted and cannot be called.` };
}
