/** What calls were asked for before somebody edited them is found by the call: a run may have many approvals, few of them edited. */
import type { Migration } from './migration.ts';

export const editedApprovals: Migration = {
  name: '0186-edited-approvals',
  up: async (knex) => {
    await knex.raw('create index approvals_edited on approvals (tool_call_id) where original_arguments is not null');
  },
};
