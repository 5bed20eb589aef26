/** Runs that delegate: what they wait for is the end of a child. And indexes for what is asked of workflows and over MCP. */
import type { Migration } from './migration.ts';

/** What an agent is called as a tool (`api/mcp/names.ts`), as a column of `agents`. */
export const TOOL_NAME = `left('run_' || regexp_replace(name, '[^A-Za-z0-9_-]', '_', 'g'), 60) collate "C"`;

export const teamsAtWork: Migration = {
  name: '0061-teams-at-work',
  up: async (knex) => {
    await knex.raw(`
      alter table waits drop constraint waits_type_check;
      alter table waits add constraint waits_type_check check (type in ('user', 'webhook', 'timer', 'tool_results', 'child'));
      -- Those that delegate: reconciliation looks for ends that nobody was told of.
      create index waits_for_children on waits (id) where closed_at is null and type = 'child';

      create index own_model_calls_by_run on own_model_calls (run_id) where run_id is not null;
      create index agents_by_tool_name on agents (workspace_id, (${TOOL_NAME})) where status <> 'deprecated';
    `);
  },
};
