/** What a projection is: a table whose rows follow from the events of a run's log, and from nothing else. */
import type { NewEvent } from '../events.ts';

export type Columns = Record<string, unknown>;

/** An event's place. `at` is `now` in a commit, which Postgres reads as its transaction's time, else the event's time. */
export interface Place {
  tenantId: string;
  workspaceId: string;
  runId: string;
  seq: number;
  at: string;
}

/** A change of one row. What is undefined stays as it is. */
export interface RowChange {
  /** Value of the projection's `key`. */
  key: string | number;
  /** Makes the row. */
  insert?: Columns;
  /** Only where its status is this one. */
  from?: string;
  set?: Columns;
  /** Adds to what is there. Money is a decimal string. */
  add?: Columns;
}

/** One file a table, in the list of `core/projections.ts`; `db/functions/apply-<table>.sql` applies its changes. */
export interface Projection<T extends string = string> {
  table: T;
  /** The column that tells the rows of a run apart. */
  key: string;
  /** Columns that the log defines. */
  columns: readonly string[];
  /** Columns that it does not: operational ones, what clients keep there, and what comes from the ledger or from the time of the commit. */
  unlogged: readonly string[];
  /** What its columns with texts hold once the run is erased: what the projection of an erased log says, or nothing. */
  erased?: Readonly<Record<string, string | null | Record<string, never>>>;
  /** What an event means for the table; undefined if it means nothing. */
  apply: (place: Place, event: NewEvent) => RowChange | undefined;
}
