/** Workflows: what each was asked, and how it goes about it. They change under the lock of their run. */
import type { StoredBlock } from '../core/content.ts';
import type { RunStatus } from '../core/events.ts';
import type { Execution } from '../core/workflow.ts';
import type { Tx } from './database.ts';
import { fetchSizedPage, type Page } from './page-bytes.ts';
import { selectFrom } from './query-builder.ts';
import type { TaskInput } from './tasks.ts';

export interface WorkflowSettings {
  on_subtask_failure: 'fail' | 'ask';
  execution: Execution;
  max_replans: number;
}

/** A workflow with what its run says of it. */
export interface WorkflowRow {
  id: string;
  workspace_id: string;
  name: string;
  agent_id: string | null;
  team_id: string | null;
  input: TaskInput;
  success_criteria: string | null;
  settings: WorkflowSettings;
  /** Plans so far, that of the definition included. */
  plans: number;
  /** A plan is being written, of which some subtasks are there already. */
  is_planning: boolean;
  /** The workflow whose answer is that of this one, too. */
  recorded_from: string | null;
  meets_criteria: boolean | null;
  gaps: string[];
  status: RunStatus;
  error: { code: string; message: string } | null;
  output: StoredBlock[] | null;
  erased_at: Date | null;
  created_at: Date;
  started_at: Date | null;
  completed_at: Date | null;
}

const WORKFLOW = `w.id, w.workspace_id, w.name, w.agent_id, w.team_id, w.input, w.success_criteria, w.settings, w.plans, w.is_planning, w.recorded_from, w.meets_criteria, w.gaps, w.created_at,
  r.status, r.error, r.started_at, r.completed_at, r.erased_at, m.content as output`;
const SIZED = `${WORKFLOW}, json_bytes(w.input) + coalesce(json_bytes(m.content), 0) as bytes`;
const WORKFLOWS = `workflows w join runs r on r.id = w.id
  left join messages m on m.lineage = r.lineage and m.ordinal = r.output_ordinal`;

export interface NewWorkflow {
  id: string;
  tenantId: string;
  workspaceId: string;
  name: string;
  agentId: string | null;
  teamId: string | null;
  input: TaskInput;
  successCriteria: string | null;
  settings: WorkflowSettings;
  isListed: boolean;
}

export async function insertWorkflow(tx: Tx, made: NewWorkflow): Promise<void> {
  await tx.query(
    `insert into workflows (id, tenant_id, workspace_id, name, agent_id, team_id, input, success_criteria, settings, is_listed)
     values ($1, $2, $3, $4, $5, $6, $7::jsonb, $8, $9::jsonb, $10)`,
    [
      made.id,
      made.tenantId,
      made.workspaceId,
      made.name,
      made.agentId,
      made.teamId,
      JSON.stringify(made.input),
      made.successCriteria,
      JSON.stringify(made.settings),
      made.isListed,
    ],
  );
}

/** A workflow beside another one, with the same to do, its plans and what it lacks; `recordedFrom`: with the same answer, too. */
export async function copyWorkflow(
  tx: Tx,
  { from, id, recordedFrom }: { from: string; id: string; recordedFrom: string | null },
): Promise<void> {
  await tx.query(
    `insert into workflows (id, tenant_id, workspace_id, name, agent_id, team_id, input, success_criteria, settings, is_listed,
       plans, gaps, recorded_from)
     select $2, tenant_id, workspace_id, name, agent_id, team_id, input, success_criteria, settings, is_listed, plans, gaps, $3
     from workflows where id = $1`,
    [from, id, recordedFrom],
  );
}

export async function findWorkflow(tx: Tx, id: string): Promise<WorkflowRow | undefined> {
  const [row] = await tx.query<WorkflowRow>(`select ${WORKFLOW} from ${WORKFLOWS} where w.id = $1`, [id]);
  return row;
}

/** A page of the workflows of a workspace, newest first. */
export async function listWorkflows(
  tx: Tx,
  page: { workspaceId: string; before?: string | undefined; limit: number; status?: readonly RunStatus[] | undefined },
): Promise<Page<WorkflowRow>> {
  const query = selectFrom(SIZED, WORKFLOWS, [
    ['w.workspace_id', '=', page.workspaceId],
    ['w.id', '<', page.before],
    ['r.status', 'in', page.status],
  ]);
  return fetchSizedPage<WorkflowRow>(tx, query.whereRaw('w.is_listed'), { order: 'id desc', limit: page.limit });
}

/** One more plan. The criteria of the first one that has any stay. */
export async function rememberPlan(
  tx: Tx,
  workflowId: string,
  { criteria, gaps }: { criteria: string; gaps: readonly string[] },
): Promise<void> {
  await tx.query(
    `update workflows set plans = plans + 1, is_planning = false, success_criteria = coalesce(success_criteria, nullif($2, '')), gaps = $3::jsonb
     where id = $1`,
    [workflowId, criteria, JSON.stringify(gaps)],
  );
}

/** Some subtasks of a plan are there before it is whole; `gaps` is what it is for, where it is not the first. */
export async function rememberPlanning(tx: Tx, workflowId: string, gaps: readonly string[]): Promise<void> {
  await tx.query('update workflows set is_planning = true, gaps = $2::jsonb where id = $1', [
    workflowId,
    JSON.stringify(gaps),
  ]);
}

/** What the check of the answer has come to. */
export async function rememberVerdict(
  tx: Tx,
  workflowId: string,
  { meets_criteria, gaps }: { meets_criteria: boolean | null; gaps: readonly string[] },
): Promise<void> {
  await tx.query('update workflows set meets_criteria = $2, gaps = $3::jsonb where id = $1', [
    workflowId,
    meets_criteria,
    JSON.stringify(gaps),
  ]);
}
