import { autonomyOf, type AgentDefinition } from '../../../core/definition.ts';
import type { RunConfig } from '../../../core/run-config.ts';
import type { SessionOfThread } from '../../../db/sessions.ts';

/** The settings of a run on a session's thread, whoever begins it: it is the session's, at its autonomy level or a lower one. */
export function withinSession<C extends Pick<RunConfig, 'autonomy_level' | 'session'>>(
  config: C,
  definition: AgentDefinition,
  session: SessionOfThread | undefined,
): C {
  if (!session) return config;
  const { autonomy_level: own = autonomyOf(definition) } = config;
  const { autonomy_level: most, user_id } = session;
  return { ...config, autonomy_level: Math.min(own, most), session: { user_id } };
}
