/** How tests start `odd-mcp-server.ts`. */
import { compiledOf } from './processes.ts';

export const ODD_SERVER = { command: process.execPath, args: [await compiledOf('test/support/odd-mcp-server.ts')] };
