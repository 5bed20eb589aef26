export interface SseMessage {
  /** The last id that the stream has named, this message's or an earlier one's. */
  lastEventId: string | undefined;
  event: string;
  data: string;
}

/** Reads server-sent events from the body of an answer (WHATWG HTML, "Event stream interpretation"). */
export async function* readSse(body: AsyncIterable<Uint8Array>): AsyncGenerator<SseMessage> {
  let lastEventId: string | undefined;
  let event = '';
  let data: string[] = [];
  for await (const line of linesOf(body)) {
    if (line === '') {
      // Without data there is nothing to tell, whatever the other fields say.
      if (data.length > 0) yield { lastEventId, event: event === '' ? 'message' : event, data: data.join('\n') };
      event = '';
      data = [];
      continue;
    }
    const [, field = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (field === 'data') data.push(value);
    if (field === 'event') event = value;
    if (field === 'id' && !value.includes('\0')) lastEventId = value;
  }
}

/** Lines end with LF, CRLF or CR. What follows the last end of a line is no line: the stream broke off in it. */
async function* linesOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    // A CR at the end may be the first half of a CRLF.
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? '';
    yield* lines;
  }
}
