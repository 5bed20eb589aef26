/** Measures JSON before it is parsed: a value of two bytes (`{}`) takes a hundred as an object. */

/** Whether JSON has more than `most` commas, lists and objects. A single scan that allocates nothing. */
export function holdsMoreValues(json: string, most: number): boolean {
  if (json.length <= most) return false;
  let left = most;
  for (let at = 0; at < json.length && left >= 0; at++) {
    const sign = json.charCodeAt(at);
    if (sign === 0x22) at = endOfString(json, at);
    // , [ {
    else if (sign === 0x2c || sign === 0x5b || sign === 0x7b) left -= 1;
  }
  return left < 0;
}

/**
 * Counts commas, lists and objects in JSON that arrives as chunks of bytes. A line break ends any string, so that text
 * around the JSON, as in an event stream, misleads for a line at most.
 */
export function countingValues(): (piece: Uint8Array) => number {
  let count = 0;
  let isInString = false;
  let isEscaped = false;
  return (piece) => {
    for (const sign of piece) {
      if (sign === 0x0a || sign === 0x0d) isInString = isEscaped = false;
      else if (isEscaped) isEscaped = false;
      else if (sign === 0x22) isInString = !isInString;
      else if (isInString) isEscaped = sign === 0x5c;
      else if (sign === 0x2c || sign === 0x5b || sign === 0x7b) count += 1;
    }
    return count;
  };
}

/** The index of the closing quotation mark of the string that opens at `start`. */
export function endOfString(json: string, start: number): number {
  let at = start + 1;
  while (at < json.length && json.charCodeAt(at) !== 0x22) at += json.charCodeAt(at) === 0x5c ? 2 : 1;
  return at;
}
