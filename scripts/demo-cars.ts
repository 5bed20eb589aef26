/** The demo's data: cars of 1970 to 1982 from the package vega-datasets, and aggregates over them. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const COLUMNS = [
  'Name',
  'Origin',
  'Year',
  'Cylinders',
  'Miles_per_Gallon',
  'Displacement',
  'Horsepower',
  'Weight_in_lbs',
  'Acceleration',
] as const;
type Column = (typeof COLUMNS)[number];
export type Car = Record<Column, string | number | null>;

export const COMPARISONS = ['eq', 'ne', 'gt', 'gte', 'lt', 'lte'] as const;
type Comparison = (typeof COMPARISONS)[number];

export const METRIC_OPS = ['mean', 'median', 'min', 'max', 'sum', 'count'] as const;
type MetricOp = (typeof METRIC_OPS)[number];

export interface Condition {
  column: Column;
  op: Comparison;
  value: string | number;
}

/** All rows, with `Year` as a number. Throws if the package is missing. */
export function loadCars(): Car[] {
  const file = fileURLToPath(new URL('../data/cars.json', import.meta.resolve('vega-datasets')));
  const rows = JSON.parse(readFileSync(file, 'utf8')) as Car[];
  return rows.map((row) => ({ ...row, Year: Number(String(row.Year).slice(0, 4)) }));
}

/**
 * The id of a selection: its conditions, so that it means the same rows after a restart of the server: `cars`,
 * `cars;Cylinders eq 4`, `cars;Cylinders eq 4;Origin eq Japan`.
 */
export function datasetId(conditions: readonly Condition[]): string {
  return ['cars', ...conditions.map(({ column, op, value }) => `${column} ${op} ${encodeURIComponent(value)}`)].join(
    ';',
  );
}

/** The conditions in an id; undefined if it is not one. */
export function readDatasetId(id: string): Condition[] | undefined {
  const [base, ...parts] = id.split(';');
  const conditions = parts.map(readCondition);
  const known = conditions.filter((condition) => condition !== undefined);
  return base === 'cars' && known.length === conditions.length ? known : undefined;
}

export function matches(car: Car, { column, op, value }: Condition): boolean {
  const actual = car[column];
  if (actual === null) return false;
  const order =
    typeof actual === 'number'
      ? actual - Number(value)
      : Math.sign(actual.localeCompare(String(value), 'en', { sensitivity: 'base' }));
  const holds: Record<Comparison, boolean> = {
    eq: order === 0,
    ne: order !== 0,
    gt: order > 0,
    gte: order >= 0,
    lt: order < 0,
    lte: order <= 0,
  };
  return holds[op];
}

/** Aggregates the rows that have the metric into a number with two decimals; null if none has. */
export function summarise(cars: readonly Car[], metric: Column, op: MetricOp): number | null {
  const values = cars.map((car) => car[metric]).filter((value) => typeof value === 'number');
  if (op === 'count') return cars.length;
  if (values.length === 0) return null;
  const sum = values.reduce((total, value) => total + value, 0);
  const results = {
    sum: () => sum,
    mean: () => sum / values.length,
    min: () => Math.min(...values),
    max: () => Math.max(...values),
    median: () => median(values),
  };
  return round(results[op](), 2);
}

interface Group {
  group: string | number;
  rows: number;
  value: number;
}

/** Aggregates per value of a column, in the order of the values; groups without the metric are left out. */
export function summariseGroups(cars: readonly Car[], by: Column, sum: { metric: Column; op: MetricOp }): Group[] {
  const groups = new Map<string | number, Car[]>();
  for (const car of cars) {
    const key = car[by];
    if (key !== null) groups.set(key, [...(groups.get(key) ?? []), car]);
  }
  return [...groups]
    .map(([group, members]) => ({ group, rows: members.length, value: summarise(members, sum.metric, sum.op) }))
    .filter((group): group is Group => group.value !== null)
    .toSorted((a, b) => (a.group < b.group ? -1 : 1));
}

export function round(value: number, decimals: number): number {
  return Number(value.toFixed(decimals));
}

function readCondition(text: string): Condition | undefined {
  const [column, op, encoded = ''] = text.split(' ');
  const known = COLUMNS.find((name) => name === column);
  const comparison = COMPARISONS.find((name) => name === op);
  if (!known || !comparison || /%(?![0-9A-Fa-f]{2})/.test(encoded)) return undefined;
  return { column: known, op: comparison, value: decodeURIComponent(encoded) };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}
