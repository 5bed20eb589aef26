/** A run that the process which creates it drives at once, and whose first call is claimed by the commit that creates it. */
import type { DrivenFrom } from '../../jobs/slot-reservation.ts';
import type { TurnJob } from '../../jobs/turns.ts';
import type { Context } from '../../modules/governance/context.ts';
import { createRun } from '../../modules/runs/create-run.ts';
import { driveRun } from '../../modules/runs/drive.ts';
import type { Engine } from './engine.ts';
import { toolsOfAgent } from './queries/agents.ts';

interface Driven {
  /** That of the process, whose drives commit by `commit`. */
  context: Context;
  commit: Context['commit'];
  stop: AbortController;
}

/** An agent whose graph begins with an inline call. */
async function chargingAgent(engine: Engine): Promise<string> {
  const owner = await engine.agent({}, [{ name: 'charge', execution: { inline: true } }]);
  const [tool = ''] = await toolsOfAgent(engine, owner);
  const nodes = [{ name: 'charge', type: 'tool' as const, config: { tool } }];
  return engine.agent({
    workflow_graph: { entry_point: 'charge', nodes, edges: [] },
    // Others are created with a checkpoint before the call.
    execution_config: { checkpoint_frequency: 'manual' },
  });
}

/** `created`: what its client is told; `drive`: the run's id, and the end of its drive, once that has begun. */
export async function createDriven(engine: Engine, { context, commit, stop }: Driven) {
  const agent = await chargingAgent(engine);
  engine.toolsAnswer(() => undefined);
  const drive: { run: string; end: Promise<unknown> } = { run: '', end: Promise.resolve() };
  const driveHere = (job: TurnJob, from?: DrivenFrom) => {
    drive.run = job.runId;
    const end = driveRun({ ...context, commit }, job, { stop: stop.signal, draining: () => false, from });
    drive.end = end;
    return end;
  };
  const outbox = { ...context.outbox, reserveSlot: () => ({ drive: driveHere, leave: () => undefined }) };
  const created = createRun(
    { ...context, outbox },
    {
      tenantId: engine.tenantId,
      workspaceId: engine.platform.workspaceId,
      agentId: agent,
      input: { message: 'charge it' },
      config: {},
      mayRaiseAutonomy: true,
      idempotency: { tenantId: engine.tenantId, route: 'test', body: null },
    },
  );
  return { created, drive };
}
