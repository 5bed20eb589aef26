import type { Context } from '../../modules/governance/context.ts';
import { replayRun } from '../../modules/runs/replay-run.ts';
import type { Engine } from './engine.ts';

/** Replays a run by its record, without effects; answers the new run, which has not been driven yet. */
export async function replayRecorded(
  { context: own, tenantId, caller }: Engine,
  runId: string,
  { checkpointId = 'start', context = own }: { checkpointId?: string; context?: Context } = {},
): Promise<string> {
  const { body } = await replayRun(context, {
    tenantId,
    runId,
    checkpointId,
    mode: 'recorded',
    rerunEffects: false,
    modified: {},
    config: {},
    mayRaiseAutonomy: true,
    by: caller,
    traceparent: undefined,
    idempotency: { tenantId, route: 'replay', body: null },
  });
  return body.new_run_id;
}
