/** The audit log, in pages for the API. */
export { listAuditRows as readAudit, type AuditRow } from '../../db/audit.ts';
