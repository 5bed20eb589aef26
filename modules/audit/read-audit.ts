/** The audit log as the API pages through it. */
export { listAuditRows as readAudit, type AuditRow } from '../../db/audit.ts';
