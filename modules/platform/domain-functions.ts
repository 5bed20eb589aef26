/** What the built-in tools of the domain do: a new one is said in `tools/builtin/domain-tools.ts`, lies in its module, and has a line here. */
import type { Database } from '../../db/database.ts';
import type { DomainFunctions } from '../../tools/builtin/builtin-type.ts';
import { readToolOutput } from '../tool-calls/read-tool-output.ts';

export function domainFunctions({ db }: { db: Database }): DomainFunctions {
  return { read_tool_output: (attempt) => readToolOutput(db, attempt) };
}
