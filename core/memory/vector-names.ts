/** The name that is stored as the model of a text's vector. It also tells lengths, and refusals, apart. */

/** The model that comes with Drover, whose vectors are of one length and whose index the migrations make. */
export const OFFLINE_EMBEDDINGS = 'offline';

/** Begins the mark of a text that a model refuses: it has no vector and is found by its words. */
const REFUSED = 'none';
const WITH_LENGTH = /^(.+)#(\d+)$/;

interface VectorName {
  /** Empty for a refusal from before its model was stored. */
  model: string;
  /** Undefined for the length that the model gave first. */
  length: number | undefined;
  isRefused: boolean;
}

/** Vectors of another length than the model gave first are not comparable with those, and are named like another model's. */
export const withLength = (model: string, length: number): string => `${model}#${length}`;

/** The name of a model's vectors, if it gave `first` numbers when it was first used. */
export function nameOfVectors(model: string, length: number, first: number | undefined): string {
  return first === undefined || first === length ? model : withLength(model, length);
}

/** Stored in place of a vector's name: the text is not sent to this model again, but to others. */
export const refusalBy = (model: string): string => `${REFUSED}:${model}`;

export function readVectorName(name: string): VectorName {
  if (name === REFUSED) return { model: '', length: undefined, isRefused: true };
  if (name.startsWith(`${REFUSED}:`))
    return { model: name.slice(REFUSED.length + 1), length: undefined, isRefused: true };
  const [, model = name, length] = WITH_LENGTH.exec(name) ?? [];
  return { model, length: length === undefined ? undefined : Number(length), isRefused: false };
}
