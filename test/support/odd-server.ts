/** How tests start `odd-mcp-server.ts`: compiled once a test run, since from source each start would take a second. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';

export const ODD_SERVER = { command: process.execPath, args: [compile()] };

function compile(): string {
  mkdirSync('.drover', { recursive: true });
  // Within the repository, where its packages are found.
  const folder = mkdtempSync(join(process.cwd(), '.drover', 'test-build-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const options = ['--ignoreConfig', '--noCheck', '--module', 'nodenext', '--target', 'es2023', '--outDir', folder];
  const tsc = ['node_modules/typescript/bin/tsc', 'test/support/odd-mcp-server.ts', ...options];
  execFileSync(process.execPath, tsc, { timeout: 60_000 });
  return join(folder, 'odd-mcp-server.js');
}
