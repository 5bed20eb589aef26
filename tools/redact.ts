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

/** Whether a header or parameter may hold a credential, by its name. A mere reference to a secret or input is none. */
export function isCredential(name: string, value: string): boolean {
  if (/^(\S+ )?\{\{\s*(secret:[^{}\s]+|input[\w.-]*)\s*\}\}$/.test(value)) return false;
  return /auth|cookie|key|token|secret|password|signature/i.test(name);
}
