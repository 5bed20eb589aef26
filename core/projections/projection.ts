/** A projection: a table whose rows follow from the events of a run's log alone. */
import type { NewEvent } from '../events.ts';

export type Columns = Record<string, unknown>;

/** An event's place. `at` is `now` in a commit (Postgres: transaction time), otherwise the event's time. */
export interface Place {
  tenantId: string;
  workspaceId: string;
  runId: string;
  seq: number;
  at: string;
}

/** A change of one row. Undefined values stay unchanged. */
export interface RowChange {
  /** Value of the key column. */
  key: string | number;
  /** Makes the row. */
  insert?: Columns;
  /** Only apply if the row has this status. */
  from?: string;
  set?: Columns;
  /** Amounts to add. Money is a decimal string. */
  add?: Columns;
}

/** One file a table, in the list of `core/projections.ts`; `db/functions/apply-<table>.sql` applies its changes. */
export interface Projection<T extends string = string> {
  table: T;
  /** The column that identifies rows within a run. */
  key: string;
  /** Columns that the log defines. */
  columns: readonly string[];
  /** Columns that it does not define: operational ones, clients' data, and values from the ledger or the time of commit. */
  unlogged: readonly string[];
  /** Values of text columns after the run is erased: as projected from the erased log, or nothing. */
  erased?: Readonly<Record<string, string | null | Record<string, never>>>;
  /** The row change for an event; undefined if there is none. */
  apply: (place: Place, event: NewEvent) => RowChange | undefined;
}
