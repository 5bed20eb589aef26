/** The agent that is built in: it can be looked at, not changed or deleted. */
import { BUILTIN_PLANNER } from '../../core/builtin-planner.ts';
import { conflict } from '../../core/errors.ts';

export function isBuiltinAgent(id: string): boolean {
  return id === BUILTIN_PLANNER.id;
}

/** Throws 409 for the built-in agent, which is in no registry. */
export function refuseBuiltinAgent(id: string): void {
  if (isBuiltinAgent(id)) throw conflict('The built-in planner cannot be changed or deleted.');
}

/** The name of the built-in agent, which no table has; undefined for others. */
export function builtinName(id: string): string | undefined {
  return isBuiltinAgent(id) ? BUILTIN_PLANNER.definition.name : undefined;
}
