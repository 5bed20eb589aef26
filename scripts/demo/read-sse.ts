export interface SseMessage {
  /** The stream's last id, of this message or an earlier one. */
  lastEventId: string | undefined;
  event: string;
  data: string;
}

/** Parses server-sent events from an answer's body (WHATWG HTML, "Event stream interpretation"). */
export async function* readSse(body: AsyncIterable<Uint8Array>): AsyncGenerator<SseMessage> {
  let lastEventId: string | undefined;
  let event = '';
  let data: string[] = [];
  for await (const line of linesOf(body)) {
    if (line === '') {
      // An event without data is dropped, whatever its other fields.
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

/** Splits into lines at LF, CRLF or CR. Text after the last line end is dropped: the stream broke off in it. */
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
