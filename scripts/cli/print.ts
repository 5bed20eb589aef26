/** A command's output. Text of models and strangers is unchanged, but characters that act on the terminal are escaped. */

export function print(text = ''): void {
  process.stdout.write(`${text}\n`);
}

/** Prints the API's JSON on one line, for other programs. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value));
}

// Control characters (C0 but tab and line feed, DEL, C1), reordering ones (Unicode's bidi characters), and invisible
// ones.
const ACTING = /[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\ufff9-\ufffb\u2800]|\p{Default_Ignorable_Code_Point}/gu;

/** Escapes such characters as `\u001b`, so that no model can draw over what a person is asked to approve. */
export function plain(text: string): string {
  return text.replaceAll(ACTING, (char) => {
    const code = (char.codePointAt(0) ?? 0).toString(16).padStart(4, '0');
    return code.length > 4 ? `\\u{${code}}` : `\\u${code}`;
  });
}

/** Escapes text, and joins it into one line. */
export function line(text: string, maxLength = 100): string {
  const flat = plain(text).replaceAll(/\s+/g, ' ');
  return flat.length > maxLength ? `${flat.slice(0, maxLength - 1)}…` : flat;
}

/** JSON over several lines, exact but for escapes. */
export function pretty(value: unknown): string {
  return plain(JSON.stringify(value, null, 2) ?? 'null');
}

/** Prints rows under their heads, in columns of minimal width. */
export function printTable(heads: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = heads.map((head, column) => Math.max(head.length, ...rows.map((row) => (row[column] ?? '').length)));
  for (const row of [heads, ...rows]) {
    print(
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    );
  }
}

/** Says on stderr how to get the next page, so that a pipe gets the list alone. */
export function printNext(next: string | undefined): void {
  if (next !== undefined) process.stderr.write(`There are more: --cursor ${next}\n`);
}

/** A node; its children are indented. */
export interface Branch {
  text: string;
  children: readonly Branch[];
}

/** A tree, one line per node; texts must be single lines. */
export function treeLines({ text, children }: Branch): string[] {
  const below = children.flatMap((child, index) => {
    const isLast = index === children.length - 1;
    const [first = '', ...rest] = treeLines(child);
    return [`${isLast ? '└─' : '├─'} ${first}`, ...rest.map((each) => `${isLast ? '  ' : '│ '} ${each}`)];
  });
  return [text, ...below];
}

/** Prints names and values, one per line; empty values are left out. */
export function printFields(fields: Record<string, string | number | null | undefined>): void {
  const given = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const width = Math.max(...given.map(([name]) => name.length));
  for (const [name, value] of given) print(`${name.padEnd(width)}  ${plain(String(value))}`);
}

/** The differences between two sets of arguments: a line per place, `-` before and `+` after. */
export function difference(before: unknown, after: unknown): string[] {
  return compare('', before, after);
}

function compare(path: string, before: unknown, after: unknown): string[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  if (isObject(before) && isObject(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return keys.flatMap((key) => compare(path === '' ? key : `${path}.${key}`, before[key], after[key]));
  }
  const shown = (sign: string, value: unknown) =>
    value === undefined ? [] : [`${sign} ${plain(path)}: ${plain(JSON.stringify(value))}`];
  return [...shown('-', before), ...shown('+', after)];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
