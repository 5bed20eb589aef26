/** Whether a text is a UUID (RFC 9562), of any version. */
export function isUuid(text: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
}

/** A UUID in lower case, as ids are stored; any other text unchanged. */
export function lowerUuid(text: string): string {
  return isUuid(text) ? text.toLowerCase() : text;
}
