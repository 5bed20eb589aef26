/** `drover keys`: API keys, including the first one. */
import pc from 'picocolors';
import type { Command } from 'commander';
import { loadClientConfig } from '../../config.ts';
import { SCOPES, type Scope } from '../../core/scopes.ts';
import { CommandError, EXIT } from './errors.ts';
import { connected, id, time, withPage, withPlace, type Page, type Shared } from './options.ts';
import { line, print, printJson, printNext, printTable } from './print.ts';

interface Key {
  id: string;
  name: string;
  scopes: string[];
  expires_at: string | null;
  revoked_at: string | null;
  created_at: string;
}

/** Adds the commands. */
export function addKeys(program: Command): void {
  const keys = program.command('keys').description('keys of the API');
  withPlace(keys.command('create'))
    .description('make a key, and print it this once')
    .option('--name <name>', 'what it is for', 'command line')
    .option('--scopes <scope,…>', `what it may do: ${SCOPES.join(', ')}`, 'admin')
    .option('--expires <time>', 'until when, as in 2027-01-31T00:00:00Z', time)
    .option('--direct', 'in the database of DATABASE_URL, without a service or a key: the first key is made like this')
    .option('--tenant <id>', 'of this tenant, with --direct', id)
    .action(create);
  withPage(keys.command('list')).description('list keys without their secrets, newest first').action(list);
  withPlace(keys.command('revoke'))
    .description('end a key')
    .argument('<id>', 'its id', id)
    .action(async (key: string, options: Shared) => {
      await connected(options, (client) => client.delete(`/v1/api-keys/${key}`));
      if (options.json) printJson({ id: key, revoked: true });
      else print(`revoked: ${key}`);
    });
}

type Creating = Shared & { name: string; scopes: string; expires?: string; direct?: boolean; tenant?: string };

async function create(options: Creating): Promise<void> {
  const request = {
    name: options.name,
    scopes: readScopes(options.scopes),
    ...(options.expires !== undefined && { expires_at: options.expires }),
  };
  const made = isDirect(options)
    ? await (await import('./first-key.ts')).createDirectly(request, options.tenant)
    : await connected(options, (client) => client.post<{ id: string; key: string }>('/v1/api-keys', request));
  if (options.json) return printJson({ id: made.id, ...request, key: made.key });
  process.stderr.write(pc.dim(`Key ${made.id} (${request.scopes.join(', ')}). It is shown this once.\n`));
  print(made.key);
}

/** Whether `--direct` or `--tenant` is given, or no other way is left: a database is configured, but no service and no key. */
function isDirect({ direct, url, key, tenant }: Creating): boolean {
  if (direct === true || tenant !== undefined) return true;
  const config = loadClientConfig();
  return (
    !config.embedded &&
    url === undefined &&
    config.url === undefined &&
    key === undefined &&
    config.apiKey === undefined
  );
}

function readScopes(text: string): Scope[] {
  const names = text.split(',').map((name) => name.trim());
  return names.map((name) => {
    const scope = SCOPES.find((each) => each === name);
    if (!scope) throw new CommandError(EXIT.usage, `"${name}" is no scope. There are: ${SCOPES.join(', ')}.`);
    return scope;
  });
}

async function list({ limit, cursor, ...options }: Shared & Page): Promise<void> {
  const query = { limit: String(limit), cursor };
  const answer = await connected(options, (client) =>
    client.get<{ api_keys: Key[]; next_cursor?: string }>('/v1/api-keys', query),
  );
  if (options.json) return printJson(answer);
  const state = (key: Key) => (key.revoked_at ? 'revoked' : key.expires_at ? `until ${key.expires_at}` : 'valid');
  printTable(
    ['ID', 'NAME', 'SCOPES', 'STATE', 'CREATED'],
    answer.api_keys.map((key) => [key.id, line(key.name, 40), key.scopes.join(','), state(key), key.created_at]),
  );
  printNext(answer.next_cursor);
}
