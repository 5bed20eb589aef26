/** Where content comes from, whether somebody vouches for it, and what a call was asked for under its influence. */
import type { Migration } from './migration.ts';

export const origins: Migration = {
  name: '0053-origins',
  up: async (knex) => {
    await knex.raw(`
      create domain message_origin as text check (value in ('user', 'model', 'tool', 'drover'));
      -- Null in messages of older builds, whose role says it.
      alter table messages add column origin message_origin, add column trust trust;
      -- Of what a call answers. tainted_by: the events that brought untrusted content before it was asked for.
      alter table tool_calls add column trust trust, add column tainted_by integer[];
      -- How the answer of a turn that has to fit a schema is read.
      alter table turns add column structured text check (structured in ('json', 'text'));
      alter table runs add column structured text check (structured in ('json', 'text'));
    `);
  },
};
