import { bindingFault, bindingOf } from '../../../core/tool-bindings.ts';
import { toolSuspension } from '../governance.ts';
import type { GatedCall, StageVerdict } from './stage.ts';

/** Denies a pinned tool that is deleted or suspended, or that the agent's binding does not allow. */
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
