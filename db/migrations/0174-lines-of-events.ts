/**
 * Databases in which `0171-log-of-commits` has run as builds between 0.1.0 and this one had it: there the events of a commit are arrays of
 * what differs between them. They become lines, as all others are. No process of such a build can commit beside this schema; those of 0.1.0 can.
 */
import { EVENTS_VIEW, loadFunctions, WRITERS } from './0171-log-of-commits.ts';
import type { Migration } from './migration.ts';

export const linesOfEvents: Migration = {
  name: '0174-lines-of-events',
  up: async (knex) => {
    if (!(await knex.schema.hasColumn('run_log', 'types'))) return;
    await loadFunctions(knex, ['event-lines']);
    await knex.raw(`
      alter table run_log alter column payload drop not null, add column if not exists event_count integer,
        add column if not exists events text;
      alter table run_log no force row level security;
      update run_log l set event_count = cardinality(l.types), type = null, schema_version = null, actor = null, step = null,
        events = (select string_agg(head_of_event(jsonb_build_object('type', e.type, 'schema_version', e.version,
            'step', coalesce(e.step, l.step), 'actor', coalesce(e.actor, l.actor), 'turn_id', coalesce(e.turn, l.turn_id)), l.turn_id::text),
            e'\\n' order by e.n)
          from rows from (unnest(l.types), unnest(l.schema_versions), unnest(l.steps), unnest(l.actors), unnest(l.turn_ids))
            with ordinality as e (type, version, step, actor, turn, n))
        where l.types is not null;
      alter table run_log force row level security;
      ${EVENTS_VIEW}
      alter table run_log drop column types, drop column schema_versions, drop column turn_ids, drop column steps, drop column actors;
    `);
    await loadFunctions(knex, WRITERS);
  },
};
