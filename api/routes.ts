/** All routes; where two paths match, the first one wins. */
import { A2A_ROUTES } from './a2a/routes.ts';
import { DISCOVER_ROUTES } from './agents/discover.ts';
import { HANDOFF_ROUTES } from './handoffs/routes.ts';
import { HEARTBEAT_ROUTES } from './agents/heartbeat.ts';
import { AGENT_ROUTES } from './agents/routes.ts';
import { API_KEY_ROUTES } from './api-keys.ts';
import { APPROVAL_ROUTES } from './approvals.ts';
import { AUDIT_ROUTES } from './audit.ts';
import { BUDGET_ROUTES } from './budgets.ts';
import { FILE_ROUTES } from './files/routes.ts';
import { DASHBOARD_ROUTES } from './dashboard/routes.ts';
import { HOOK_ROUTES } from './hooks.ts';
import type { Route } from './kit/route.ts';
import { MCP_ROUTES } from './mcp/routes.ts';
import { CONSOLIDATION_ROUTES } from './memory/consolidation-routes.ts';
import { MEMORY_REPORT_ROUTES } from './memory/report-routes.ts';
import { MEMORY_ROUTES } from './memory/routes.ts';
import { SPACE_ROUTES } from './memory/space-routes.ts';
import { POLICY_ROUTES } from './policies.ts';
import { OBJECTIVE_ROUTES } from './objectives.ts';
import { ERASE_ROUTES } from './runs/erase-routes.ts';
import { MANY_RUNS_ROUTES } from './runs/many.ts';
import { LOG_ROUTES } from './runs/log-routes.ts';
import { REPLAY_ROUTES } from './runs/replay-routes.ts';
import { RESUME_ROUTES } from './runs/resume-routes.ts';
import { RUN_ROUTES } from './runs/routes.ts';
import { TOKEN_ROUTES } from './runs/token-routes.ts';
import { TURN_ROUTES } from './runs/turn-routes.ts';
import { SECRET_ROUTES } from './secrets.ts';
import { SYSTEM_ROUTES } from './system.ts';
import { TEAM_ROUTES } from './teams.ts';
import { TENANT_ROUTES } from './tenants.ts';
import { MCP_SERVER_ROUTES } from './tools/mcp-servers.ts';
import { ACTION_ROUTES } from './threads/action-routes.ts';
import { CONVERSATION_ROUTES } from './threads/conversation-routes.ts';
import { THREAD_ROUTES } from './threads/routes.ts';
import { SESSION_ROUTES } from './sessions/routes.ts';
import { TOOL_ROUTES } from './tools/routes.ts';
import { ACP_ROUTES } from './wire/acp-route.ts';
import { AG_UI_ROUTES } from './wire/ag-ui-routes.ts';
import { UI_MESSAGE_ROUTES } from './wire/ui-message-routes.ts';
import { UI_STREAM_ROUTES } from './wire/ui-stream-routes.ts';
import { WEBHOOK_ROUTES } from './webhooks.ts';
import { WORKFLOW_ROUTES } from './workflows/routes.ts';

export const ROUTES: readonly Route[] = [
  ...SYSTEM_ROUTES,
  ...DISCOVER_ROUTES,
  ...HEARTBEAT_ROUTES,
  ...HANDOFF_ROUTES,
  ...AGENT_ROUTES,
  ...CONSOLIDATION_ROUTES,
  ...TEAM_ROUTES,
  ...MEMORY_REPORT_ROUTES,
  ...MEMORY_ROUTES,
  ...SPACE_ROUTES,
  ...MANY_RUNS_ROUTES,
  ...RUN_ROUTES,
  ...ERASE_ROUTES,
  ...OBJECTIVE_ROUTES,
  ...TURN_ROUTES,
  ...RESUME_ROUTES,
  ...TOKEN_ROUTES,
  ...UI_STREAM_ROUTES,
  ...UI_MESSAGE_ROUTES,
  ...AG_UI_ROUTES,
  ...ACP_ROUTES,
  ...LOG_ROUTES,
  ...REPLAY_ROUTES,
  ...DASHBOARD_ROUTES,
  ...THREAD_ROUTES,
  ...CONVERSATION_ROUTES,
  ...ACTION_ROUTES,
  ...WORKFLOW_ROUTES,
  ...SESSION_ROUTES,
  ...FILE_ROUTES,
  ...APPROVAL_ROUTES,
  ...HOOK_ROUTES,
  ...TOOL_ROUTES,
  ...MCP_SERVER_ROUTES,
  ...SECRET_ROUTES,
  ...POLICY_ROUTES,
  ...TENANT_ROUTES,
  ...API_KEY_ROUTES,
  ...AUDIT_ROUTES,
  ...WEBHOOK_ROUTES,
  ...MCP_ROUTES,
  ...A2A_ROUTES,
  ...BUDGET_ROUTES,
];
