/** What answers show of values that may be credentials. */

/** Stands in place of a value that is not shown. */
export const HIDDEN = '[hidden]';

/** The values, redacted where `secret` says that they may be credentials. */
export function redact(
  values: Record<string, string>,
  secret: (name: string, value: string) => boolean,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, secret(name, value) ? HIDDEN : value]),
  );
}

/** Whether a header or a parameter may hold a credential, by its name. A reference to a secret is none itself. */
export function isCredential(name: string, value: string): boolean {
  if (/^(\S+ )?\{\{\s*(secret:[^{}\s]+|input[\w.-]*)\s*\}\}$/.test(value)) return false;
  return /auth|cookie|key|token|secret|password|signature/i.test(name);
}
