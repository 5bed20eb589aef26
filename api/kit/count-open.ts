import type { DroverError } from '../../core/errors.ts';

/** What is open in this process, by owner. */
export interface OpenCount {
  /** Throws if the owner has so many open already; else another one is, until it is given back. */
  take(owner: string, most: number): void;
  give(owner: string): void;
}

/** `refuse`: the error for an owner who has that many. */
export function countOpen(refuse: (most: number) => DroverError): OpenCount {
  const counts = new Map<string, number>();
  return {
    take(owner, most) {
      const count = counts.get(owner) ?? 0;
      if (count >= most) throw refuse(most);
      counts.set(owner, count + 1);
    },
    give(owner) {
      const left = (counts.get(owner) ?? 1) - 1;
      if (left > 0) counts.set(owner, left);
      else counts.delete(owner);
    },
  };
}
