/** The supervisor of a hierarchical team: it may delegate, whatever its other tools, and is told to whom. */

import type { PinnedTool } from '../../../core/events.ts';
import { DELEGATE_TOOL } from '../../../core/tool.ts';
import { BUILTIN_TOOLS } from '../../../tools/builtin.ts';
import { findTeam } from '../../../db/teams.ts';
import { listWorkers } from '../../../db/workers.ts';
import type { WorkflowLook } from '../advance/workflow-look.ts';

/** Extra tools of the supervisor's run, and the text about its members; undefined if the agent leads no such team. */
export async function leadOf(
  { tx, workflow, run }: WorkflowLook,
  agentId: string,
): Promise<{ tools: PinnedTool[]; members: string } | undefined> {
  const team = workflow.team_id ? await findTeam(tx, workflow.team_id) : undefined;
  if (team?.orchestration_pattern !== 'hierarchical' || team.supervisor_agent_id !== agentId) return undefined;
  const others = team.members.filter((member) => member.agent_id !== agentId);
  if (others.length === 0) return undefined;
  const { workspace_id: workspaceId } = run;
  const workers = await listWorkers(tx, { workspaceId, skills: [], ids: others.map(({ agent_id }) => agent_id) });
  const lines = others.flatMap(({ agent_id, role }) => {
    const found = workers.find(({ id }) => id === agent_id)?.definition;
    if (!found) return [];
    const skills = found.capabilities?.map(({ skill_name }) => skill_name) ?? [];
    const known = [found.description, skills.length > 0 ? `can: ${skills.join(', ')}` : undefined].filter(Boolean);
    return [`- ${found.name} (${role})${known.length > 0 ? `: ${known.join('; ')}` : ''}`];
  });
  const members = `You lead a team, to whose members you can delegate parts of this:\n${lines.join('\n')}`;
  return { tools: [DELEGATE], members };
}

const DELEGATE = pinOf(DELEGATE_TOOL);

function pinOf(name: string): PinnedTool {
  const tool = BUILTIN_TOOLS.find((builtin) => builtin.name === name);
  if (!tool) throw new Error(`there is no built-in tool ${name}`);
  return { id: tool.id, name, version: tool.version };
}
