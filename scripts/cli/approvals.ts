/** `drover approvals`: shows what waits for a person, exactly as it would be done, and sends the decision. */
import { InvalidArgumentError, type Command } from 'commander';
import { CommandError, EXIT } from './errors.ts';
import { connected, id, json, jsonOrText, oneOf, withPage, withPlace, type Page, type Shared } from './options.ts';
import { difference, line, plain, pretty, print, printFields, printJson, printNext, printTable } from './print.ts';
import { sayIfIdle } from './say-if-idle.ts';

interface Approval {
  id: string;
  run_id: string;
  kind: string;
  tool: string;
  tool_call_id: string | null;
  arguments: Record<string, unknown>;
  original_arguments: Record<string, unknown> | null;
  digest: string;
  status: string;
  decision: string | null;
  reason: string | null;
  expires_at: string;
  created_at: string;
  decided_at: string | null;
}

interface Listed {
  approvals: Approval[];
  next_cursor?: string;
}

/** Adds the commands. */
export function addApprovals(program: Command): void {
  const approvals = program.command('approvals').description('what waits for a person, and the person’s word');
  withPage(approvals.command('list'))
    .description('list approvals, newest first')
    .option(
      '--status <status>',
      'pending, approved, denied, expired, settled or all',
      oneOf('pending', 'approved', 'denied', 'expired', 'settled', 'all'),
      'pending',
    )
    .option('--run <id>', 'of one run', id)
    .action(list);
  withPlace(approvals.command('show'))
    .description('show an approval with the exact arguments')
    .argument('<id>', 'the approval', id)
    .action(show);
  addDecision(approvals, 'approve', 'make the call as it is shown');
  addDecision(approvals, 'deny', 'do not make the call; the model is told the reason');
  withPlace(approvals.command('edit'))
    .description('change the arguments, and approve the changed call')
    .argument('<id>', 'the approval', id)
    .option('--arguments <json>', 'all of the arguments instead', json)
    .option('--set <name=json>', 'one argument instead (repeatable); what is no JSON is text', collect, {})
    .option('--reason <text>', 'why')
    .option('--dry-run', 'only show the difference')
    .action(edit);
  withPlace(approvals.command('settle'))
    .description('say what became of a call whose outcome nobody knows')
    .argument('<id>', 'the approval', id)
    .argument('<outcome>', 'happened, rerun or give_up', outcome)
    .option('--result <json>', 'what the call gave, with happened', json)
    .option('--reason <text>', 'why')
    .action((approval: string, decision: string, options: Settling) =>
      decide(approval, { decision, result: options.result, reason: options.reason }, options),
    );
}

function addDecision(approvals: Command, decision: 'approve' | 'deny', description: string): void {
  withPlace(approvals.command(decision))
    .description(description)
    .argument('<id>', 'the approval', id)
    .option('--digest <digest>', 'only if it is still for these arguments (the whole digest, as `show` prints it)')
    .option('--reason <text>', 'why')
    .action(async (approval: string, options: Shared & { reason?: string; digest?: string }) =>
      decide(approval, { decision, reason: options.reason }, options),
    );
}

async function list(options: Shared & Page & { status: string; run?: string }): Promise<void> {
  const query = {
    status: options.status === 'all' ? undefined : options.status,
    run_id: options.run,
    limit: String(options.limit),
    cursor: options.cursor,
  };
  const answer = await connected(options, (client) => client.get<Listed>('/v1/approvals', query));
  if (options.json) return printJson(answer);
  if (answer.approvals.length === 0) return print(`No approvals that are ${options.status}.`);
  const heads = ['ID', 'STATUS', 'KIND', 'TOOL', 'ARGUMENTS'];
  printTable(
    heads,
    answer.approvals.map((each) => [
      each.id,
      each.status,
      each.kind,
      line(each.tool, 40),
      line(JSON.stringify(each.arguments), 60),
    ]),
  );
  printNext(answer.next_cursor);
}

async function show(approval: string, options: Shared): Promise<void> {
  const found = await connected(options, (client) => client.get<Approval>(`/v1/approvals/${approval}`));
  if (options.json) return printJson(found);
  present(found);
}

function present(approval: Approval): void {
  const { id: approvalId, tool, kind, run_id: run, digest, status, decision, reason } = approval;
  printFields({ approval: approvalId, status, decision, reason, kind, tool, run, digest });
  printFields({ created: approval.created_at, expires: approval.expires_at, decided: approval.decided_at });
  print(`arguments\n${pretty(approval.arguments)}`);
  const { original_arguments: asked } = approval;
  if (asked) print(['edited', ...difference(asked, approval.arguments)].join('\n'));
  if (status !== 'pending') return;
  const settle = `drover approvals settle ${approvalId} happened|rerun|give_up`;
  print(kind === 'unknown' ? `\n${settle}` : `\ndrover approvals approve|deny|edit ${approvalId}`);
}

interface Decision {
  decision: string;
  arguments?: Record<string, unknown>;
  result?: unknown;
  reason?: string | undefined;
}

async function decide(approval: string, decision: Decision, options: Shared & { digest?: string }): Promise<void> {
  await connected(options, async (client) => {
    const path = `/v1/approvals/${approval}`;
    if (options.digest !== undefined) checkDigest(await client.get<Approval>(path), options.digest);
    // A key that may not read runs is not told what it was about.
    const decided = await client.post<Pick<Approval, 'id' | 'status'> & Partial<Approval>>(path, decision);
    if (options.json) printJson(decided);
    else print(`${decided.status}: ${decided.tool === undefined ? '' : `${plain(decided.tool)} `}(${decided.id})`);
    sayIfIdle(client);
  });
}

function checkDigest({ digest }: Approval, expected: string): void {
  if (digest === expected) return;
  if (digest.startsWith(expected)) throw new CommandError(EXIT.usage, `Give the whole digest: ${digest}`);
  throw new CommandError(EXIT.refused, `The approval is for other arguments: its digest is ${digest}.`);
}

type Editing = Shared & { arguments?: unknown; set: Record<string, unknown>; reason?: string; dryRun?: boolean };

async function edit(approval: string, options: Editing): Promise<void> {
  await connected(options, async (client) => {
    const path = `/v1/approvals/${approval}`;
    const before = await client.get<Approval>(path);
    const changed = editedArguments(before.arguments, options);
    const lines = difference(before.arguments, changed);
    if (lines.length === 0) throw new CommandError(EXIT.usage, 'Nothing would change: give --set or --arguments.');
    if (!options.json) for (const each of lines) print(each);
    if (options.dryRun) return options.json ? printJson({ arguments: changed, difference: lines }) : undefined;
    const { reason } = options;
    const decided = await client.post<Approval>(path, { decision: 'edit', arguments: changed, reason });
    if (options.json) printJson(decided);
    else print(`${decided.status}: ${plain(decided.tool)} (${decided.id}), digest ${decided.digest}`);
    return sayIfIdle(client);
  });
}

function editedArguments(before: Record<string, unknown>, options: Editing): Record<string, unknown> {
  const { arguments: all = before, set } = options;
  if (typeof all === 'object' && all !== null && !Array.isArray(all)) return { ...all, ...set };
  throw new CommandError(EXIT.usage, '--arguments is a JSON object.');
}

type Settling = Shared & { result?: unknown; reason?: string };

function outcome(text: string): string {
  if (['happened', 'rerun', 'give_up'].includes(text)) return text;
  throw new InvalidArgumentError('It is happened, rerun or give_up.');
}

function collect(text: string, earlier: Record<string, unknown>): Record<string, unknown> {
  const [, name, value = ''] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined) throw new InvalidArgumentError('It is name=value.');
  return { ...earlier, [name]: jsonOrText(value) };
}
