import type { SecretOwner } from '../../core/secret-box.ts';

export function tokenOwner(tenantId: string, waitId: string): SecretOwner {
  return { tenantId, name: nameOfToken(waitId) };
}

/** A name that no tenant's secret can have. */
export const nameOfToken = (waitId: string): string => `webhook of wait ${waitId}`;
