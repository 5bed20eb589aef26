import type { Caller } from '../../core/caller.ts';
import { deleteFiles } from '../../db/files.ts';
import { recordAudit } from '../audit/record-audit.ts';
import type { FileContext } from './content.ts';
import { noFile, requireFile } from './read-files.ts';
import { sweepTenant } from './sweep-files.ts';

/** Deletes a file, and its content if no other file has it. Conversations then say that it is gone. Throws 404. */
export async function deleteFile(context: FileContext, caller: Caller, id: string): Promise<void> {
  await context.db.withTenant(caller.tenantId, async (tx) => {
    await requireFile(tx, caller, id);
    // A concurrent request may have deleted it.
    if ((await deleteFiles(tx, [id])) === 0) throw noFile();
    await recordAudit(tx, caller, { action: 'file.deleted', target: ['file', id] });
  });
  await sweepTenant(context, caller.tenantId);
}
