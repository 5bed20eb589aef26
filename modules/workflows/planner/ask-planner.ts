/**
 * The questions a workflow asks its planner: split the work, make one answer of the results, find gaps (000,
 * "Hierarchical Planning").
 */
import { z } from 'zod';
import { BUILTIN_PLANNER } from '../../../core/builtin-planner.ts';
import { workflowExamplesOf, type AgentDefinition } from '../../../core/definition.ts';
import { LIMITS } from '../../../core/limits.ts';
import { isPerilous, LEASES_LOST } from '../../../core/lost-leases.ts';
import { ancestorsOf } from '../../../core/run-config.ts';
import { findCycle, planFaults, withFreeIds } from '../../../core/workflow.ts';
import { findAgentIds } from '../../../db/agents.ts';
import type { Tx } from '../../../db/database.ts';
import type { WorkflowRow } from '../../../db/workflows.ts';
import { fallbackModelsOf, primaryModelOf } from '../../agents/effective-limits.ts';
import type { Context } from '../../governance/context.ts';
import { askForTool, type ToolAnswer } from '../../model-calls/ask-for-tool.ts';
import type { OwnTool, ToolAsk } from '../../model-calls/tool-ask.ts';
import type { HeldWorkflow } from './hold-workflow.ts';
import { recordAsked } from './record-asked.ts';

/** A workflow whose planner is asked. */
export interface Planning extends HeldWorkflow {
  context: Context;
  workflow: WorkflowRow;
  /** The last model that has answered under this lease. */
  answered: { model?: string };
}

interface Plan {
  subtasks: z.output<typeof subtask>[];
  success_criteria: string;
}

export interface FinishedTask {
  name: string;
  description: string;
  result: string;
}

const MODEL_TIMEOUT_MS = 300_000;
const OUTPUT_TOKENS = 16_384;

type PlannedRun = Pick<HeldWorkflow['run'], 'tenant_id' | 'agent_id' | 'agent_version'>;

/** A planner, and the names of its models in order. */
interface Planner {
  definition: AgentDefinition;
  models: (string | undefined)[];
}

interface PlannerSource {
  context: Pick<Context, 'definitions' | 'models'>;
  /** The open transaction, where there is one: the embedded database has no second. */
  tx?: Tx;
}

/** The planner for this tool; undefined for the offline model, unless a worked example shows it how to call the tool. */
export async function plannerFor(source: PlannerSource, run: PlannedRun, tool: string): Promise<Planner | undefined> {
  const { context } = source;
  const definition = await plannerDefinition(source, run);
  const first = primaryModelOf(definition, undefined);
  const isOffline = (first ?? context.models.defaultName()).split('/')[0] === 'offline';
  const isShown = workflowExamplesOf(definition).some(({ steps }) => steps.some((step) => step.tool === tool));
  if (isOffline && !isShown) return undefined;
  return { definition, models: [first, ...fallbackModelsOf(definition)] };
}

/** The agent that plans. */
export async function plannerDefinition(
  { context: { definitions }, tx }: PlannerSource,
  run: PlannedRun,
): Promise<AgentDefinition> {
  if (run.agent_id === BUILTIN_PLANNER.id) return BUILTIN_PLANNER.definition;
  const { tenant_id: tenantId, agent_id: agentId, agent_version: agentVersion } = run;
  const pins = { tenantId, agentId, agentVersion, tools: [] };
  const { definition } = await (tx ? definitions.loadIn(tx, pins) : definitions.load(pins));
  return definition;
}

/** Asks for a plan: for the whole question, or for the `gaps` in finished work, on which its subtasks may depend. */
export function askForPlan(
  planning: Planning,
  about: {
    skills: readonly string[];
    done: readonly FinishedTask[];
    gaps: readonly string[];
    /** Subtasks that an unfinished plan has begun. */
    begun?: readonly string[];
    /** Those of them that have failed for good. */
    failed?: readonly string[];
    /** Gets the plan's JSON as it is written. */
    onArguments?: ((json: string) => void) | undefined;
  },
): Promise<ToolAnswer<Plan>> {
  const { done, gaps, skills, begun = [], failed = [], onArguments } = about;
  const underWay =
    begun.length > 0
      ? [`Under way already; where you need one of these, plan it in the same words:\n${begun.join('\n')}`]
      : [];
  const hopeless = failed.length > 0 ? [`Has failed for good; plan a way without it:\n${failed.join('\n')}`] : [];
  const missing = gaps.length > 0 ? [`Plan only what is missing:\n${gaps.map((gap) => `- ${gap}`).join('\n')}`] : [];
  const known = skills.length > 0 ? [`Capabilities that workers have: ${skills.join(', ')}`] : [];
  return ask(planning, {
    purpose: 'plan',
    tool: submitPlan(planning, done),
    system:
      'You split work into subtasks for workers who see nothing but the description of their own subtask and the results of those that it depends on. Give each an id, what is to be done in full, and the ids of the subtasks whose results it needs. Subtasks that need nothing of each other are done at the same time.',
    text: [questionOf(planning.workflow), ...resultsOf(done), ...missing, ...underWay, ...hopeless, ...known].join(
      '\n\n',
    ),
    onArguments,
  });
}

/** Asks for one answer made of the results. */
export function askForSynthesis(
  planning: Planning,
  done: readonly FinishedTask[],
): Promise<ToolAnswer<{ result: string }>> {
  return ask(planning, {
    purpose: 'synthesis',
    tool: {
      name: 'submit_synthesis',
      description: 'Gives the answer that the results come to.',
      arguments: z.object({ result: z.string().min(1) }),
    },
    system:
      'You make one answer to the question of the results that workers have come to. Say nothing that is not in them.',
    text: [questionOf(planning.workflow), criteriaOf(planning.workflow), ...resultsOf(done)].join('\n\n'),
  });
}

interface Verdict {
  meets_criteria: boolean;
  gaps: string[];
}

/** Asks whether an answer meets the success criteria, and what it lacks. */
export function askForVerdict(planning: Planning, result: string): Promise<ToolAnswer<Verdict>> {
  return ask(planning, {
    purpose: 'verdict',
    tool: {
      name: 'submit_verdict',
      description: 'Says whether the answer meets the criteria, and each gap if it does not.',
      arguments: z.object({ meets_criteria: z.boolean(), gaps: z.array(z.string()).max(50).default([]) }),
    },
    system: 'You check an answer against criteria. Name as a gap only what the criteria ask for and the answer lacks.',
    text: [questionOf(planning.workflow), criteriaOf(planning.workflow), `Answer:\n${result}`].join('\n\n'),
  });
}

interface Asked<T> {
  purpose: string;
  tool: OwnTool<T>;
  system: string;
  text: string;
  onArguments?: ((json: string) => void) | undefined;
}

async function ask<T>(
  planning: Planning,
  { purpose, tool, system, text, onArguments }: Asked<T>,
): Promise<ToolAnswer<T>> {
  const { context, run, signal } = planning;
  const planner = await plannerFor({ context }, run, tool.name);
  if (!planner) return { fault: { code: 'rejected', message: 'The offline model makes no plans.' } };
  if (isPerilous(run)) return { fault: { ...LEASES_LOST, code: 'lost' } };
  const record = recordAsked(planning);
  const asked: ToolAsk<T> = {
    tenantId: run.tenant_id,
    workspaceId: run.workspace_id,
    agentId: run.agent_id === BUILTIN_PLANNER.id ? undefined : run.agent_id,
    run: { id: run.id, rootId: run.root_run_id, ancestors: ancestorsOf(run) },
    purpose,
    models: planner.models,
    examples: workflowExamplesOf(planner.definition),
    tool,
    system,
    messages: [{ role: 'user', content: [{ type: 'text', text: text.toWellFormed() }] }],
    maxTokens: OUTPUT_TOKENS,
    onArguments,
    record,
    signal,
    timeoutMs: MODEL_TIMEOUT_MS,
  };
  try {
    const answer = await askForTool(context, asked);
    if ('arguments' in answer) planning.answered.model = answer.model;
    return answer;
  } finally {
    await record.commit();
  }
}

const subtaskName = z.string().min(1).max(200);

/**
 * A subtask as a model gives it. Models are told of skills only, but may name an agent, say since the question does:
 * that one then does it.
 */
export const subtask = z
  .looseObject({
    id: subtaskName,
    description: z.string().min(1).max(100_000),
    dependencies: z.array(subtaskName).max(LIMITS.subtasksPerPlan).default([]),
    required_capabilities: z.array(subtaskName).max(100).optional(),
  })
  .transform(({ id, description, dependencies, required_capabilities, ...more }, refinement) => {
    // Models also use `""` or `null` for a field they leave out.
    const named = subtaskName.optional().safeParse(more['agent'] || undefined);
    if (!named.success)
      refinement.addIssue({ code: 'custom', path: ['agent'], message: 'is not the name of an agent' });
    return { id, description, dependencies, required_capabilities, agent: named.data };
  });

/** How many more subtasks a workflow may have. */
export function roomFor(tasks: readonly unknown[]): number {
  return Math.max(0, LIMITS.subtasksPerPlan - tasks.length);
}

/**
 * The tool for a plan. A plan with a cycle, unknown ids or agents, or more subtasks than there is room for is refused
 * and asked for once more.
 */
function submitPlan({ context, run }: Planning, done: readonly FinishedTask[]): OwnTool<Plan> {
  const plan = z.object({
    subtasks: z
      .array(subtask)
      .min(1)
      .max(Math.max(1, roomFor(done))),
    success_criteria: z.string().max(20_000).default(''),
  });
  const known = [...new Set(done.map(({ name }) => name))];
  const named = plan.transform((made) => ({ ...made, subtasks: withFreeIds(made.subtasks, known) }));
  const checked = named.superRefine(async ({ subtasks }, refinement) => {
    const complain = (message: string) => refinement.addIssue({ code: 'custom', path: ['subtasks'], message });
    const all = [...known.map((id) => ({ id, dependencies: [] })), ...subtasks];
    for (const { message } of planFaults(all)) complain(message);
    const cycle = findCycle(subtasks);
    if (cycle) complain(`go in a circle: ${cycle.join(' → ')}`);
    const count = subtasks.reduce((sum, { dependencies }) => sum + dependencies.length, 0);
    if (count > LIMITS.dependenciesPerPlan) complain(`have more than ${LIMITS.dependenciesPerPlan} dependencies`);
    const agents = [...new Set(subtasks.flatMap(({ agent }) => agent ?? []))];
    if (agents.length === 0) return;
    const found = await context.db.withTenant(run.tenant_id, (tx) => findAgentIds(tx, run.workspace_id, agents));
    const unknown = agents.filter((name) => !found.has(name));
    if (unknown.length > 0)
      complain(`name no agents: ${unknown.join(', ')}; without \`agent\` whoever fits best does it`);
  });
  return { name: 'submit_plan', description: 'Gives the plan.', arguments: checked };
}

function questionOf({ input, name }: WorkflowRow): string {
  const context =
    input.context === undefined || input.context === null ? '' : `\n\nContext:\n${JSON.stringify(input.context)}`;
  return `Question:\n${input.user_query ?? name}${context}`;
}

function criteriaOf({ success_criteria }: WorkflowRow): string {
  return `Criteria:\n${success_criteria ?? 'none'}`;
}

function resultsOf(done: readonly FinishedTask[]): string[] {
  const most = LIMITS.dependencyResultChars;
  return done.map(({ name, description, result }) => `Result of ${name} (${description}):\n${result.slice(0, most)}`);
}
