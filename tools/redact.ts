/** Hides values that may be credentials in answers. */

/** Replaces a hidden value. */
export const HIDDEN = '[hidden]';

/** The values, with those hidden that `secret` calls credentials. */
export function redact(
  values: Record<string, string>,
  secret: (name: string, value: string) => boolean,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, secret(name, value) ? HIDDEN : value]),
  );
}

/** A transport to an endpoint, without possible credentials in its headers and in the query of the endpoint. */
export function redactRemote<T extends { endpoint: string; headers?: Record<string, string> | undefined }>(
  transport: T,
): T {
  const { endpoint, headers } = transport;
  return {
    ...transport,
    endpoint: redactEndpoint(endpoint),
    ...(headers && { headers: redact(headers, isCredential) }),
  };
}

/** The URL, otherwise as it was written, without possible credentials in its query. */
export function redactEndpoint(url: string): string {
  const [address = '', ...queries] = url.split('?');
  const redacted = queries.join('?').replaceAll(/([^&=#]+)=[^&#]*/g, (pair, name: string) => {
    const [[parameter, value] = ['', '']] = new URLSearchParams(pair);
    return isCredential(parameter, value) ? `${name}=${HIDDEN}` : pair;
  });
  return queries.length === 0 ? url : `${address}?${redacted}`;
}

/** The JSON, without the texts that may be credentials by the names that lead to them. Numbers stay: `max_tokens` is none. */
export function redactJson(value: unknown, names = ''): unknown {
  if (typeof value === 'string') return isCredential(names, value) ? HIDDEN : value;
  if (Array.isArray(value)) return value.map((item) => redactJson(item, names));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, redactJson(item, `${names}.${name}`)]));
}

/** Whether a header or parameter may hold a credential, by its name. A mere reference to a secret or input is none. */
export function isCredential(name: string, value: string): boolean {
  if (/^(\S+ )?\{\{\s*(secret:[^{}\s]+|input[\w.-]*)\s*\}\}$/.test(value)) return false;
  return /auth(?!or(?!i))|cookie|key(?!word)|token|secret|password|signature|(?<![a-z])sig(?![a-z])/i.test(name);
}
