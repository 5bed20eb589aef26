/**
 * The settings of a run, as a client gives them, the log keeps them and drivers read them. A new one goes here; the API,
 * `run.created` and the row of the run take it from here.
 */
import { z } from 'zod';
import { runBudget } from './budget.ts';

/** What a run keeps of its settings: `config` of `run.created` and of the row. */
export const runConfig = z.strictObject({
  model_override: z.string().min(1).max(200).optional(),
  stream: z.boolean().optional(),
  /** Model calls of a turn. */
  max_turns: z.int().min(1).max(1000).optional(),
  autonomy_level: z.int().min(0).max(3).optional(),
  budget: runBudget.optional(),
  /** The run belongs to a session: whatever of an answer needs approval is one plan, and policies see its user. */
  session: z.strictObject({ user_id: z.string() }).optional(),
  /** Of a child: the runs that it stands below, from the root on, with their budgets, of which its own spending is part. */
  ancestors: z.array(z.strictObject({ run_id: z.uuid(), budget: runBudget.optional() })).optional(),
});
export type RunConfig = z.output<typeof runConfig>;

/**
 * What a client may ask for: the settings, the version of the agent and whether the run stays open, which `run.created`
 * has in fields of their own. Null in place of a model means none, as if the setting were not there.
 */
export const requestedConfig = runConfig.omit({ session: true, ancestors: true }).extend({
  model_override: runConfig.shape.model_override.unwrap().nullish(),
  agent_version: z.string().max(50).optional(),
  keep_open: z.boolean().optional(),
});
export type RequestedConfig = z.output<typeof requestedConfig>;

/** What a run keeps of what was asked for; `base` has the settings that stay where nothing else was asked for. */
export function keptConfig(
  requested: RequestedConfig & Pick<RunConfig, 'session' | 'ancestors'>,
  base: RunConfig = {},
): RunConfig {
  const { agent_version: _version, keep_open: _open, ...settings } = requested;
  const { model_override, ...kept } = { ...base, ...settings };
  return typeof model_override === 'string' ? { ...kept, model_override } : kept;
}
