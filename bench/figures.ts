/** A result of a part of the benchmark other than the steps. */
export interface Figure {
  part: string;
  what: string;
  value: number;
  unit: string;
  /** Relative to the floor, or to the value without load, in the same run. */
  ratio?: { value: number; to: string };
  goal?: string;
}

/** One line for each figure. */
export function figureTable(figures: readonly Figure[]): string {
  const rows = figures.map(({ part, what, value, unit, ratio, goal }) => [
    part,
    what,
    `${digits(value)} ${unit}`,
    ratio ? `${digits(ratio.value)} x ${ratio.to}` : '',
    goal ? `goal: ${goal}` : '',
  ]);
  const widths = [0, 1, 2, 3].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ');
  return `${rows.map((row) => line(row).trimEnd()).join('\n')}\n`;
}

function digits(value: number): string {
  // A missing value is NaN, or null after coming from another process.
  if (value === null || !Number.isFinite(value)) return 'none';
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
