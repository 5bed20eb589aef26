import type { RequestListener, Server } from 'node:http';

/** Has a server listen; where it cannot, the error says which variable, `named`, chooses another port. */
export function listen(server: Server, { host, port }: { host: string; port: number }, named: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const refuse = (error: NodeJS.ErrnoException) => {
      const message = whyNot({ host, port }, error.code ?? '', named);
      reject(message === undefined ? error : new Error(message, { cause: error }));
    };
    server.once('error', refuse);
    server.listen({ host, port }, () => {
      server.off('error', refuse);
      resolve();
    });
  });
}

/** Requests to a server that listens already go to another listener than before. */
export function handOver(server: Server, { from, to }: { from: RequestListener; to: RequestListener }): void {
  server.off('request', from);
  server.on('request', to);
}

function whyNot({ host, port }: { host: string; port: number }, code: string, named: string): string | undefined {
  switch (code) {
    case 'EADDRINUSE':
      return `Port ${port} of ${host} is taken by another process (${code}): stop that, or set ${named} to another port.`;
    case 'EACCES':
      return `Port ${port} of ${host} is not open to this process (${code}): set ${named} to one above 1023.`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EADDRNOTAVAIL':
      return `HOST is ${host}, which is no address of this machine (${code}): set it to one, such as 127.0.0.1, or to 0.0.0.0 for all of them.`;
    default:
      return undefined;
  }
}
