/**
 * The settings of a run as clients send, the log keeps, and drivers read them. Add new ones here: the API, `run.created` and
 * the run's row use these definitions.
 */
import { z } from 'zod';
import { runBudget } from './budget.ts';

/** The settings that a run keeps: `config` of `run.created` and of the row. */
export const runConfig = z.strictObject({
  model_override: z.string().min(1).max(200).optional(),
  stream: z.boolean().optional(),
  /** Limit of model calls in a turn. */
  max_turns: z.int().min(1).max(1000).optional(),
  autonomy_level: z.int().min(0).max(3).optional(),
  budget: runBudget.optional(),
  /** The run belongs to a session: an answer's calls that need approval become one plan, and policies see the user. */
  session: z.strictObject({ user_id: z.string() }).optional(),
  /** For a child of such a run, at any depth: the user that policies see. It is no part of the session itself. */
  for_user: z.string().optional(),
  /** For a child: the runs above it, root first, with their budgets, which also pay for this run. */
  ancestors: z.array(z.strictObject({ run_id: z.uuid(), budget: runBudget.optional() })).optional(),
});
export type RunConfig = z.output<typeof runConfig>;
export type Ancestors = NonNullable<RunConfig['ancestors']>;

/**
 * The ancestors of what a run begins: its children, and Drover's own model calls for it. They are root first, with their
 * budgets. A retry has the root of the run that it repeats.
 */
export function ancestorsOf(run: { id: string; root_run_id: string; depth: number; config: RunConfig }): Ancestors {
  const { ancestors = [], budget } = run.config;
  const run_id = run.depth === 0 && ancestors.length === 0 ? run.root_run_id : run.id;
  return [...ancestors, { run_id, ...(budget && { budget }) }];
}

/**
 * The settings that clients may send. Agent version and whether the run stays open are separate fields of `run.created`. Null
 * as model means none, as if absent.
 */
export const requestedConfig = runConfig.omit({ session: true, for_user: true, ancestors: true }).extend({
  model_override: runConfig.shape.model_override.unwrap().nullish(),
  agent_version: z.string().max(50).optional(),
  keep_open: z.boolean().optional(),
});
export type RequestedConfig = z.output<typeof requestedConfig>;

/** The settings to keep; `base` has the values for settings that the client did not send. */
export function keptConfig(
  requested: RequestedConfig & Pick<RunConfig, 'session' | 'for_user' | 'ancestors'>,
  base: RunConfig = {},
): RunConfig {
  const { agent_version: _version, keep_open: _open, ...settings } = requested;
  const { model_override, ...kept } = { ...base, ...settings };
  return typeof model_override === 'string' ? { ...kept, model_override } : kept;
}

/** The user whom a run works for, as policies see it: of its session, or of the session above it; empty without either. */
export function userOf({ session, for_user }: Pick<RunConfig, 'session' | 'for_user'>): string {
  return session?.user_id ?? for_user ?? '';
}
