/** Columns, tables and stored values by the field's words. What the functions of before were called goes, too. */
import type { Migration } from './migration.ts';

const FUNCTIONS_OF_BEFORE = [
  'model_gate_ms(text)',
  'shut_model_gate(text, integer)',
  'pass_model_gate(text, integer, integer, integer)',
  'charge_model_gate(text, integer, integer)',
  'apply_plans(jsonb)',
];

export const names: Migration = {
  name: '0022-names',
  up: async (knex) => {
    await knex.raw(`
      alter table tenants rename column governance_version to policy_epoch;
      alter table runs rename column rests to dormant;
      alter table model_gates rename to model_rates;
      alter index model_gates_pkey rename to model_rates_pkey;

      alter domain call_mode drop constraint call_mode_check;
      -- Row level security is forced on the owner, too, and would show it no row.
      alter table tool_calls no force row level security;
      update tool_calls set mode = 'pure' where mode = 'cheap';
      alter table tool_calls force row level security;
      alter domain call_mode add constraint call_mode_check check (value in ('pure', 'inline', 'queued', 'wait'));
    `);
    for (const name of FUNCTIONS_OF_BEFORE) await knex.raw(`drop function if exists ${name}`);
  },
};
