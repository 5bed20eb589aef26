/** A name that every model provider accepts; names that collide are numbered. */
export function uniqueName(original: string, taken: Set<string>): string {
  const plain = original.replace(/[^a-zA-Z0-9_-]+/g, '_').slice(0, 64) || 'tool';
  let name = plain;
  for (let number = 2; taken.has(name); number += 1) {
    const suffix = `_${number}`;
    name = plain.slice(0, 64 - suffix.length) + suffix;
  }
  taken.add(name);
  return name;
}
