import type { Knex } from 'knex';

/** A step of the schema. Its name is kept in the database, so it never changes. */
export interface Migration {
  name: string;
  up(knex: Knex): Promise<void>;
}
