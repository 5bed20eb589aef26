import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Room } from './shared-room.ts';

/** No room here (IANA's registry of WebSocket close codes: "Try Again Later"). */
const TRY_LATER = 1013;

/** Size of a client's frame around a payload as short as a ping's. */
const FRAME_BYTES = 6;

/**
 * Counts unfinished messages against the room, with the pings and pongs between their frames: each piece of a message
 * keeps all bytes that came with it in memory. Closes the socket if there is no room.
 */
export function holdToRoom(socket: WebSocket, connection: Duplex, room: Room): void {
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
  // Runs before the receiver, which emits a message while it is given its last piece.
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
