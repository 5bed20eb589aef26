import type { CustomTypesConfig } from 'pg';
import pg from 'pg';

const INT8 = 20;
const INT8_ARRAY = 1016;
const DATE = 1082;

/** Types of values from either database; others are as in pg. */
export const TYPES: CustomTypesConfig = {
  getTypeParser(oid, format) {
    const parse: (value: string) => unknown = pg.types.getTypeParser(oid, format);
    if (format === 'binary') return parse;
    // pg's types omit the ids of arrays.
    const id: number = oid;
    switch (id) {
      case INT8:
        return Number;
      case INT8_ARRAY:
        return (value: string) => toNumbers(parse(value));
      case DATE:
        // A date has no time zone; as a Date it would be midnight in this process's.
        return (value: string) => value;
      default:
        return parse;
    }
  },
};

function toNumbers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toNumbers);
  return value === null ? null : Number(value);
}
