import type { SecretOwner } from '../../core/secret-box.ts';

export function tokenOwner(tenantId: string, waitId: string): SecretOwner {
  return { tenantId, name: nameOfToken(waitId) };
}

/** No secret of a tenant can have this name. */
export const nameOfToken = (waitId: string): string => `webhook of wait ${waitId}`;
