import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import fc from 'fast-check';
import { skipInterimAnswers } from '../../lib/skip-interim-answers.ts';

const INTERIM = [
  'HTTP/1.1 100 Continue\r\n\r\n',
  'HTTP/1.1 100 \r\n\r\n',
  'HTTP/1.1 102 Processing\r\ndate: now\r\n\r\n',
  'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\nlink: </b>\r\n\r\n',
];
const ANSWERS = [
  'HTTP/1.1 200 OK\r\ncontent-length: 26\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nx',
  'HTTP/1.0 404 Not Found\r\n\r\nno',
  'HTTP/1.1 101 Switching Protocols\r\n\r\n',
  'no HTTP at all',
];

/** The pieces of a text that begin at these places. */
function piecesOf(text: string, cuts: readonly number[]): string[] {
  const places = [0, ...cuts.map((cut) => cut % text.length).toSorted((a, b) => a - b), text.length];
  return places.slice(1).flatMap((to, n) => text.slice(places[n], to) || []);
}

function readAll(socket: Duplex): string {
  const read = () => socket.read() as Buffer | null;
  let text = '';
  for (let piece = read(); piece; piece = read()) text += piece.toString();
  return text;
}

describe('Interim answers', () => {
  it('are passed over before each answer, and nothing else is, however both are cut into pieces', () => {
    const answer = fc.record({
      interim: fc.array(fc.constantFrom(...INTERIM), { maxLength: 3 }),
      final: fc.constantFrom(...ANSWERS),
      cuts: fc.array(fc.nat(), { maxLength: 6 }),
    });
    fc.assert(
      fc.property(fc.array(answer, { minLength: 1, maxLength: 3 }), (answers) => {
        const socket = skipInterimAnswers(new Duplex({ read: () => undefined, write: (_1, _2, done) => done() }));
        for (const { interim, final, cuts } of answers) {
          socket.write('GET / HTTP/1.1\r\n\r\n');
          let text = '';
          for (const piece of piecesOf([...interim, final].join(''), cuts)) {
            socket.push(piece);
            text += readAll(socket);
          }
          assert.equal(text, final);
        }
      }),
    );
  });

  it('are nothing that a stream is only asked to go on for', () => {
    const socket = skipInterimAnswers(new Duplex({ read: () => undefined, write: (_1, _2, done) => done() }));
    socket.push(ANSWERS[0]);
    assert.equal(socket.read(0), null);
    assert.equal(readAll(socket), ANSWERS[0]);
  });

  it('are not waited for without end', () => {
    const socket = skipInterimAnswers(new Duplex({ read: () => undefined, write: (_1, _2, done) => done() }));
    const endless = `HTTP/1.1 100 ${'x'.repeat(20_000)}`;
    socket.push(endless);
    assert.equal(readAll(socket), endless);
  });
});
