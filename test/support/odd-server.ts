/** How tests start `odd-mcp-server.ts`: compiled once a test run, since from source each start would take a second. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { buildFolder } from './processes.ts';

export const ODD_SERVER = { command: process.execPath, args: [compile()] };

function compile(): string {
  const folder = buildFolder();
  const options = ['--ignoreConfig', '--noCheck', '--module', 'nodenext', '--target', 'es2023', '--outDir', folder];
  const tsc = ['node_modules/typescript/bin/tsc', 'test/support/odd-mcp-server.ts', ...options];
  execFileSync(process.execPath, tsc, { timeout: 60_000 });
  return join(folder, 'odd-mcp-server.js');
}
