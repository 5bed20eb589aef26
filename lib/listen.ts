import type { Server } from 'node:http';

/** Has a server listen; where it cannot, the error says which variable, `named`, chooses another port. */
export function listen(server: Server, { host, port }: { host: string; port: number }, named: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const refuse = (error: NodeJS.ErrnoException) => {
      const isTaken = error.code === 'EADDRINUSE';
      const message = `Port ${port} of ${host} is taken by another process (EADDRINUSE): stop that, or set ${named} to another port.`;
      reject(isTaken ? new Error(message, { cause: error }) : error);
    };
    server.once('error', refuse);
    server.listen({ host, port }, () => {
      server.off('error', refuse);
      resolve();
    });
  });
}
