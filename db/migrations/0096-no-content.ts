/** Why tables with texts have nothing that erasure would take, as their comments. A later table says it in the migration that makes it. */
import type { Migration } from './migration.ts';

const SET_UP = 'what a tenant has set up, not what was said in a run';

const SHARED = 'what clients have put into a shared space, where it is deleted';

const REASONS = {
  agent_skills: SET_UP,
  agent_versions: SET_UP,
  agents: SET_UP,
  api_keys: SET_UP,
  audit_heads: 'a hash',
  audit_log: 'ids, names, outcomes and digests; its chain stays verifiable',
  budgets: SET_UP,
  embedding_settings: 'names of models',
  file_contents: 'digests, sizes and states',
  maintenance_acts: 'names of acts',
  mcp_servers: SET_UP,
  memory_checks: 'ids and times',
  memory_consolidations: 'ids, numbers and settings',
  memory_fragment_versions: SHARED,
  memory_fragments: SHARED,
  memory_models: 'ids and names of models',
  memory_spaces: SET_UP,
  model_outages: 'names of models, and what their providers said of themselves',
  model_rates: 'names of models',
  objectives: 'ids and a digest; the prompt is the input of the run',
  outbox: 'ids alone',
  own_model_calls: 'ids, names of models, sums and a state',
  parked_runs: 'ids and names of models',
  policies: SET_UP,
  policy_versions: SET_UP,
  rate_counts: 'ids, digests and counts',
  reservations: 'sums and a state',
  secrets: SET_UP,
  skills: SET_UP,
  team_members: SET_UP,
  teams: SET_UP,
  tenants: SET_UP,
  tool_versions: SET_UP,
  tools: SET_UP,
  usage_daily: 'sums, and names of models and of registered tools',
  workspaces: SET_UP,
};

export const noContent: Migration = {
  name: '0096-no-content',
  up: async (knex) => {
    for (const [table, reason] of Object.entries(REASONS)) {
      await knex.raw(`comment on table ${table} is 'No content of runs: ${reason}'`);
    }
  },
};
