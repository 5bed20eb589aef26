/** Workflows: their request and progress. Changed only under the lock of their run. */
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
  /** Whether the subtasks with the workflow's query are votes of a team. Absent without a team, and in rows from before this was written. */
  by_vote?: boolean;
}

/** A workflow with its run's data. */
export interface WorkflowRow {
  id: string;
  workspace_id: string;
  name: string;
  agent_id: string | null;
  team_id: string | null;
  input: TaskInput;
  success_criteria: string | null;
  settings: WorkflowSettings;
  /** Number of plans so far, including that of the definition. */
  plans: number;
  /** A plan is being written, and some of its subtasks exist already. */
  is_planning: boolean;
  /** The workflow whose answer this one shares. */
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

/** Copies a workflow: same request, plans and gaps; `recordedFrom`: also the same answer. */
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

/** Counts another plan. Success criteria of the first plan that has any are kept. */
export async function rememberPlan(
  tx: Tx,
  workflowId: string,
  { criteria, gaps }: { criteria: string; gaps: readonly string[] },
): Promise<void> {
  await tx.query(
    `update workflows set plans = plans + 1, is_planning = false, success_criteria = coalesce(success_criteria, nullif($2, '')), gaps = $3::jsonb,
       draft = null where id = $1`,
    [workflowId, criteria, JSON.stringify(gaps)],
  );
}

/** Records that subtasks of an incomplete plan exist; `gaps`: what the plan is for, unless it is the first. */
export async function rememberPlanning(tx: Tx, workflowId: string, gaps: readonly string[]): Promise<void> {
  await tx.query('update workflows set is_planning = true, gaps = $2::jsonb where id = $1', [
    workflowId,
    JSON.stringify(gaps),
  ]);
}

/** Forgets an incomplete plan whose subtasks are dropped. */
export async function forgetPlanning(tx: Tx, workflowId: string): Promise<void> {
  await tx.query('update workflows set is_planning = false where id = $1', [workflowId]);
}

/** Records the result of the check of the answer. */
export async function rememberVerdict(
  tx: Tx,
  workflowId: string,
  { meets_criteria, gaps }: { meets_criteria: boolean | null; gaps: readonly string[] },
): Promise<void> {
  await tx.query('update workflows set meets_criteria = $2, gaps = $3::jsonb, draft = null where id = $1', [
    workflowId,
    meets_criteria,
    JSON.stringify(gaps),
  ]);
}

/** An answer that a workflow does not give yet. */
export interface Draft {
  /** The number of tasks that it is made of: with more of them another answer is made. */
  tasks: number;
  /** Absent if it is the results as they are. */
  result?: string | undefined;
  /** What it lacks, and the next plan is for; absent if it was not checked yet. */
  gaps?: string[];
}

/** Keeps an answer that a model was paid for until the workflow gives it. */
export async function keepDraft(tx: Tx, workflowId: string, draft: Draft): Promise<void> {
  await tx.query('update workflows set draft = $2::jsonb where id = $1', [workflowId, JSON.stringify(draft)]);
}

/** The answer that the workflow does not give yet. */
export async function readDraft(tx: Tx, workflowId: string): Promise<Draft | undefined> {
  const [row] = await tx.query<{ draft: Draft | null }>('select draft from workflows where id = $1', [workflowId]);
  return row?.draft ?? undefined;
}
