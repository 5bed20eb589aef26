import { createServer, type Server } from 'node:net';

interface Address {
  host: string;
  /** 0: any free one. */
  port: number;
}

/** Throws, as `listen` does, if the address cannot be listened on. */
export async function expectFree(address: Address, named: string): Promise<void> {
  const server = createServer();
  await listen(server, address, named);
  await new Promise((resolve) => server.close(resolve));
}

/** Makes a server listen. If it cannot, the error says to change the port in the variable `named`. */
export function listen(server: Server, { host, port }: Address, named: string): Promise<void> {
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

function whyNot({ host, port }: Address, code: string, named: string): string | undefined {
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
