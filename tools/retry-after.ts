/** The time that a `Retry-After` header names, in seconds or as an HTTP date (RFC 9110, 10.2.3), in ms from now. */
export function retryAfter(header: string | null): number | undefined {
  if (header === null) return undefined;
  const ms = /^\d{1,9}$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
