/** A pinned version of a tool under the guards of another version (docs/replay.md). Pure. */
import { highestRisk, trustOf, type ToolDefinition } from './tool.ts';

/** The tool as it is, with whatever guards its calls more in either version. */
export function guardedBy(tool: ToolDefinition, other: ToolDefinition): ToolDefinition {
  const isUntrusted = trustOf(tool) === 'untrusted' || trustOf(other) === 'untrusted';
  return {
    ...tool,
    risk_level: highestRisk([tool.risk_level, other.risk_level]),
    annotations: hintsOf(tool.annotations, other.annotations),
    permissions: permissionsOf(tool, other),
    accepts_tainted: tool.accepts_tainted && other.accepts_tainted,
    ...(isUntrusted && { output_trust: 'untrusted' }),
  };
}

type Hints = ToolDefinition['annotations'];

/** Hints that allow more hold if both versions have them, others if one has. */
function hintsOf(own: Hints, other: Hints): Hints {
  return {
    ...own,
    readOnlyHint: own.readOnlyHint && other.readOnlyHint,
    idempotentHint: own.idempotentHint && other.idempotentHint,
    destructiveHint: own.destructiveHint || other.destructiveHint,
  };
}

function permissionsOf(tool: ToolDefinition, other: ToolDefinition): ToolDefinition['permissions'] {
  const required = (name: string) =>
    [...tool.permissions, ...other.permissions].some((each) => each.name === name && each.required);
  const names = new Set([...tool.permissions, ...other.permissions].map(({ name }) => name));
  return [...names].map((name) => ({ name, required: required(name) }));
}
