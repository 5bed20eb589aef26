/** Every migration in its order. Forward only: a released one is never edited, a change is a new file. */
import { owners } from './0001-owners.ts';
import { runs } from './0002-runs.ts';
import { partitions } from './0003-partitions.ts';
import { isolation } from './0005-isolation.ts';
import { budgets } from './0006-budgets.ts';
import { waits } from './0007-waits.ts';
import { policies } from './0008-policies.ts';
import { tools } from './0009-tools.ts';
import { audit } from './0010-audit.ts';
import { objectives } from './0013-objectives.ts';
import { webhooks } from './0014-webhooks.ts';
import { mcpServers } from './0020-mcp-servers.ts';
import { queueBoard } from './0021-queue-board.ts';
import { outboxRows } from './0023-outbox-rows.ts';
import { sessions } from './0032-sessions.ts';
import { threadHead } from './0024-thread-head.ts';
import { webhookTurns } from './0026-webhook-turns.ts';
import { outputs } from './0025-outputs.ts';
import { maintenance } from './0011-maintenance.ts';
import { modelGates } from './0012-model-gates.ts';
import { retention } from './0015-retention.ts';
import { names } from './0022-names.ts';
import { hostsAndErasure } from './0028-hosts-and-erasure.ts';
import { claims } from './0027-claims.ts';
import { modelOutages } from './0029-model-outages.ts';
import { rateCounts } from './0033-rate-counts.ts';
import { months } from './0034-months.ts';
import { threadsAndOwnCalls } from './0038-threads-and-own-calls.ts';
import { memory } from './0045-memory.ts';
import { consolidation } from './0046-consolidation.ts';
import { spaces } from './0047-spaces.ts';
import { memoryModels } from './0048-memory-models.ts';
import { archiveExpiry } from './0049-archive-expiry.ts';
import { openStreams } from './0037-open-streams.ts';
import { usageDaily } from './0039-usage-daily.ts';
import { files } from './0040-files.ts';
import { fileUses } from './0041-file-uses.ts';
import { workflows } from './0042-workflows.ts';
import { workflowPlans } from './0044-plans.ts';
import { teams } from './0043-teams.ts';
import { conflicts } from './0057-conflicts.ts';
import { dashboardIndexes } from './0055-dashboard-indexes.ts';
import { extraction } from './0056-extraction.ts';
import { teamsAtWork } from './0061-teams-at-work.ts';
import { earlySubtasks } from './0062-early-subtasks.ts';
import { restartedWorkflows } from './0063-restarted-workflows.ts';
import { delegatedTasks } from './0066-delegated-tasks.ts';
import { openInputs } from './0067-open-inputs.ts';
import { agentLifecycle } from './0050-agent-lifecycle.ts';
import { handoffs } from './0051-handoffs.ts';
import { origins } from './0053-origins.ts';
import { turnStarts } from './0054-turn-starts.ts';
import { skills } from './0052-skills.ts';
import { roomForUpdates } from './0075-room-for-updates.ts';
import { titlesByTenant } from './0072-titles-by-tenant.ts';
import { remoteWork } from './0080-remote-work.ts';
import { trustOfAnswers } from './0077-trust-of-answers.ts';
import { errorsOfAnAgent } from './0110-errors-of-an-agent.ts';
import { lastingExtractions } from './0111-lasting-extractions.ts';
import type { Migration } from './migration.ts';
import { callsBySecond } from './0068-calls-by-second.ts';
import { pushConfigs } from './0069-push-configs.ts';

export const MIGRATIONS: readonly Migration[] = [
  // In the order in which they came, which is that of their numbers but for those made side by side.
  owners,
  runs,
  partitions,
  isolation,
  budgets,
  waits,
  policies,
  tools,
  audit,
  maintenance,
  modelGates,
  objectives,
  webhooks,
  retention,
  mcpServers,
  queueBoard,
  names,
  outboxRows,
  threadHead,
  outputs,
  webhookTurns,
  claims,
  hostsAndErasure,
  modelOutages,
  sessions,
  rateCounts,
  months,
  threadsAndOwnCalls,
  usageDaily,
  memory,
  consolidation,
  spaces,
  openStreams,
  files,
  fileUses,
  workflows,
  teams,
  workflowPlans,
  extraction,
  conflicts,
  teamsAtWork,
  earlySubtasks,
  restartedWorkflows,
  agentLifecycle,
  handoffs,
  origins,
  turnStarts,
  skills,
  roomForUpdates,
  callsBySecond,
  pushConfigs,
  delegatedTasks,
  openInputs,
  titlesByTenant,
  trustOfAnswers,
  remoteWork,
  dashboardIndexes,
  memoryModels,
  archiveExpiry,
  errorsOfAnAgent,
  lastingExtractions,
];
