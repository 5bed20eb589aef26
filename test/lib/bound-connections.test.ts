import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { boundConnections } from '../../lib/bound-connections.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('boundConnections', () => {
  let server: Server;
  let open: ReadonlySet<Socket>;
  let clients: Socket[];

  beforeEach(async () => {
    clients = [];
    server = createServer((_request, response) => response.end());
    ({ open } = boundConnections(server, { most: 2, onClosed: () => undefined }));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterEach(() => {
    for (const client of clients) client.destroy();
    server.close();
  });

  /** A silent connection, as its two ends. */
  const next = async () => {
    const { port } = server.address() as AddressInfo;
    const [client, [served]] = await (async () => {
      const taken = once(server, 'connection') as Promise<[Socket]>;
      const opened = connect(port, '127.0.0.1').on('error', () => undefined);
      clients.push(opened);
      return [opened, await taken] as const;
    })();
    return { client, served };
  };

  it('counts a connection once that is parsed again, as after an upgrade which nobody takes', async () => {
    const { served } = await next();
    const { served: other } = await next();
    for (const socket of [served, other]) server.emit('connection', socket);
    assert.deepEqual([open.size, served.destroyed, other.destroyed], [2, false, false]);
  });

  it('has no more than it may where silent ones have gone by themselves: another one makes room', async () => {
    const { client, served } = await next();
    client.destroy();
    await waitUntil('it is gone', () => served.destroyed && open.size === 0);
    const silent = await next();
    await next();
    await next();
    assert.deepEqual([open.size, silent.served.destroyed], [2, true]);
  });
});
