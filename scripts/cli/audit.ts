/** `drover audit`: shows who did what, and checks that the log was not altered. */
import { InvalidArgumentError, type Command } from 'commander';
import type { Client } from './client.ts';
import { CommandError, EXIT } from './errors.ts';
import { connected, withPage, withPlace, type Page, type Shared } from './options.ts';
import { line, print, printJson, printNext, printTable } from './print.ts';

interface Entry {
  action: string;
  actor: { type: string; id: string | null };
  target: { type: string; id: string | null };
  details: Record<string, unknown>;
  created_at: string;
}

interface Listed {
  audit: Entry[];
  next_cursor?: string;
}

interface Link {
  seq: number;
  hash: string;
}

interface Verdict {
  ok: boolean;
  checked: number;
  broken: { seq: number; id: string | null; reason: string } | null;
  from: Link;
  head: Link;
  next: number | null;
  unsealed: { count: number; oldest: string | null };
}

/** Adds the commands. */
export function addAudit(program: Command): void {
  const audit = program.command('audit').description('who did what, and whether the log is still what it was');
  withPage(audit.command('list'))
    .description('list what was done, newest first')
    .option('--action <action>', 'such as approval.decided')
    .option('--actor <id>', "a key's id, or api_key, operator, system")
    .option('--target <id>', 'the id or name of what it was done to')
    .action(list);
  withPlace(audit.command('verify'))
    .description('walk the chain and name its first broken link; ends with 1 if there is one')
    .option('--expect <seq:hash>', 'a head that was noted earlier, which must still be there', link)
    .action(verify);
}

type Listing = Shared & Page & { action?: string; actor?: string; target?: string };

async function list(options: Listing): Promise<void> {
  const { action, actor, target, limit, cursor } = options;
  const query = { action, actor, target, limit: String(limit), cursor };
  const answer = await connected(options, (client) => client.get<Listed>('/v1/audit', query));
  if (options.json) return printJson(answer);
  if (answer.audit.length === 0) return print('No entries.');
  const heads = ['TIME', 'ACTION', 'ACTOR', 'TARGET', 'DETAILS'];
  const named = ({ type, id: of }: Entry['actor']) => line(of === null ? type : `${type} ${of}`, 60);
  printTable(
    heads,
    answer.audit.map((entry) => [
      entry.created_at,
      entry.action,
      named(entry.actor),
      named(entry.target),
      line(JSON.stringify(entry.details)),
    ]),
  );
  printNext(answer.next_cursor);
}

async function verify(options: Shared & { expect?: Link }): Promise<void> {
  const walked = await connected(options, (client) => walk(client, options.expect));
  if (options.json) printJson(walked);
  const { broken, head, checked, unsealed } = walked;
  if (broken) {
    const where = broken.id === null ? '' : `, row ${broken.id}`;
    throw new CommandError(EXIT.refused, `The chain is broken at link ${broken.seq}${where}: ${broken.reason}.`);
  }
  if (options.json) return;
  print(`The chain holds: ${checked} links, head ${head.seq}:${head.hash}.`);
  if (unsealed.count > 0) print(`${unsealed.count} rows have no place in it yet, the oldest since ${unsealed.oldest}.`);
}

async function walk(client: Client, expected: Link | undefined): Promise<Verdict> {
  let checked = 0;
  for (let after = 0; ;) {
    const piece = await client.get<Verdict>('/v1/audit/verify', { after: String(after) });
    checked += piece.checked;
    if (piece.next === null) return { ...piece, ...(await compareHead(client, piece, expected)), checked };
    after = piece.next;
  }
}

/** Compares a noted head with the chain's link at its place. */
async function compareHead(client: Client, end: Verdict, expected: Link | undefined): Promise<Partial<Verdict>> {
  if (!expected || end.broken) return {};
  const broken = { seq: expected.seq, id: null, reason: 'not the one that was noted' };
  if (expected.seq > end.head.seq) return { ok: false, broken };
  const { from } = await client.get<Verdict>('/v1/audit/verify', { after: String(expected.seq) });
  return from.hash === expected.hash ? {} : { ok: false, broken };
}

function link(text: string): Link {
  const [, seq, hash] = /^(\d{1,9}):([0-9a-f]{64})$/.exec(text) ?? [];
  if (seq === undefined || hash === undefined) throw new InvalidArgumentError('It is seq:hash, as verify prints it.');
  return { seq: Number(seq), hash };
}
