const MAX_CHARS = 64;

/** A name that every model provider accepts; names that collide are numbered. */
export function uniqueName(original: string, taken: Set<string>): string {
  const plain = plainName(original);
  let name = plain;
  for (let number = 2; taken.has(name); number += 1) name = withSuffix(plain, `_${number}`);
  taken.add(name);
  return name;
}

/** Whether `uniqueName` may have made the name of this original. */
export function isNameOf(name: string, original: string): boolean {
  const plain = plainName(original);
  const [suffix = ''] = /_\d+$/.exec(name) ?? [];
  return name === plain || (suffix !== '' && name === withSuffix(plain, suffix));
}

function plainName(original: string): string {
  return original.replace(/[^a-zA-Z0-9_-]+/g, '_').slice(0, MAX_CHARS) || 'tool';
}

function withSuffix(plain: string, suffix: string): string {
  return plain.slice(0, MAX_CHARS - suffix.length) + suffix;
}
