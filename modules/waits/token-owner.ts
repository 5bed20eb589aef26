import type { SecretOwner } from '../../core/secret-box.ts';

/** No secret of a tenant can have this name. */
export function tokenOwner(tenantId: string, waitId: string): SecretOwner {
  return { tenantId, name: `webhook of wait ${waitId}` };
}
