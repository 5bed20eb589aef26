/** Whether a text is a UUID (RFC 9562), of any version. */
export function isUuid(text: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
}

/** A UUID as ids are stored, in lower case; any other text as it is. */
export function lowerUuid(text: string): string {
  return isUuid(text) ? text.toLowerCase() : text;
}
