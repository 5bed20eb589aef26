/** The reference servers of the Model Context Protocol, as processes of their own. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { closedPort } from './echo-server.ts';
import { waitUntil } from './wait-until.ts';

const require = createRequire(import.meta.url);

/** The program of `@modelcontextprotocol/<name>`, to be run with node. */
export function programOf(name: 'server-everything' | 'server-filesystem' | 'server-memory'): string {
  return join(dirname(require.resolve(`@modelcontextprotocol/${name}/package.json`)), 'dist', 'index.js');
}

export interface EverythingServer {
  port: number;
  /** `/mcp` or `/sse`. */
  url: string;
  kill: () => Promise<void>;
}

/** Starts server-everything over HTTP on a port of loopback; it is ready when this resolves. */
export async function startEverything(kind: 'streamableHttp' | 'sse', port?: number): Promise<EverythingServer> {
  const free = port ?? (await closedPort());
  const child: ChildProcess = spawn(process.execPath, [programOf('server-everything'), kind], {
    env: { PATH: process.env['PATH'], PORT: String(free) },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  await waitUntil('the server listens', () => said.includes(String(free)));
  return {
    port: free,
    url: `http://127.0.0.1:${free}/${kind === 'sse' ? 'sse' : 'mcp'}`,
    kill: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}
