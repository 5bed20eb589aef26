/** What a command shows. Text of models and strangers is shown as it is, but for characters that would act on the terminal. */

export function print(text = ''): void {
  process.stdout.write(`${text}\n`);
}

/** As the API gave it, in one line, for other programs. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value));
}

// Control characters (C0 but tab and line feed, DEL, C1), what reorders text (Unicode's bidi characters), and what shows nothing.
const ACTING = /[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\ufff9-\ufffb\u2800]|\p{Default_Ignorable_Code_Point}/gu;

/** Text with such characters as `\u001b`: nothing that a model writes can draw over what a person is asked to approve. */
export function plain(text: string): string {
  return text.replaceAll(ACTING, (char) => {
    const code = (char.codePointAt(0) ?? 0).toString(16).padStart(4, '0');
    return code.length > 4 ? `\\u{${code}}` : `\\u${code}`;
  });
}

/** The same, on one line. */
export function line(text: string, maxLength = 100): string {
  const flat = plain(text).replaceAll(/\s+/g, ' ');
  return flat.length > maxLength ? `${flat.slice(0, maxLength - 1)}…` : flat;
}

/** JSON over several lines, each of them exact. */
export function pretty(value: unknown): string {
  return plain(JSON.stringify(value, null, 2) ?? 'null');
}

/** Rows under their heads, in columns as wide as they need to be. */
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

/** Says how a list goes on that has more; beside it, so that the list alone is what a pipe gets. */
export function printNext(next: string | undefined): void {
  if (next !== undefined) process.stderr.write(`There are more: --cursor ${next}\n`);
}

/** What stands below it is indented. */
export interface Branch {
  text: string;
  children: readonly Branch[];
}

/** A tree, a line each; texts have to be on one line. */
export function treeLines({ text, children }: Branch): string[] {
  const below = children.flatMap((child, index) => {
    const isLast = index === children.length - 1;
    const [first = '', ...rest] = treeLines(child);
    return [`${isLast ? '└─' : '├─'} ${first}`, ...rest.map((each) => `${isLast ? '  ' : '│ '} ${each}`)];
  });
  return [text, ...below];
}

/** Names and values, one a line; what has no value is left out. */
export function printFields(fields: Record<string, string | number | null | undefined>): void {
  const given = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const width = Math.max(...given.map(([name]) => name.length));
  for (const [name, value] of given) print(`${name.padEnd(width)}  ${plain(String(value))}`);
}

/** What differs between two sets of arguments: a line a place, `-` as it was and `+` as it is. */
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
