/** The models of an agent's run, for Drover's own calls on its behalf. */
import type { FirstTurn } from '../../db/threads.ts';
import { fallbackModelsOf, primaryModelOf } from '../agents/effective-limits.ts';
import type { Context } from '../governance/context.ts';

/** Their names in order, and whether the first is the offline model, which needs no request. */
export async function modelsOf(
  context: Pick<Context, 'definitions' | 'models'>,
  tenantId: string,
  run: Pick<FirstTurn, 'agent_id' | 'agent_version' | 'model_override'>,
): Promise<{ names: (string | undefined)[]; isOffline: boolean }> {
  const pins = { tenantId, agentId: run.agent_id, agentVersion: run.agent_version, tools: [] };
  const { definition } = await context.definitions.load(pins);
  const first = primaryModelOf(definition, run.model_override);
  const isOffline = (first ?? context.models.defaultName()).split('/')[0] === 'offline';
  return { names: [first, ...fallbackModelsOf(definition)], isOffline };
}
