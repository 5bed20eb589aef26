import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { BodyRoom } from './body-room.ts';

/** There is no room here (IANA's registry of WebSocket close codes: "Try Again Later"). */
const TRY_LATER = 1013;

/** Of a frame of a client around its payload, where that is as short as a ping's. */
const FRAME_BYTES = 6;

/**
 * What has come of a message that is not whole yet takes of the room, and so do pings and pongs that come between its
 * frames: each piece of a message keeps all that came along with it in memory. Where there is no room, the socket is closed.
 */
export function holdToRoom(socket: WebSocket, connection: Duplex, room: BodyRoom): void {
  let held = 0;
  let controls = 0;
  const giveBack = () => {
    room.give(held);
    held = controls = 0;
  };
  const onControl = (data: Buffer) => {
    controls += data.length + FRAME_BYTES;
    if (controls >= held) giveBack();
  };
  // Before the receiver, which tells of a message while it is given the last piece of it.
  connection.prependListener('data', (chunk: Buffer) => {
    try {
      room.take(chunk.length);
      held += chunk.length;
    } catch {
      connection.pause();
      socket.close(TRY_LATER, 'Too much is being sent here at the time. Again in 2 s.');
      connection.end(() => connection.destroy());
    }
  });
  socket.on('message', giveBack).on('ping', onControl).on('pong', onControl).once('close', giveBack);
}
