import type { FileStore, FileStoreAddress } from './file-store.ts';
import { filesystemStore } from './filesystem-store.ts';

/** Opens the store of an address without contacting it. The S3 SDK is loaded only if needed. */
export async function openFileStore(address: FileStoreAddress): Promise<FileStore> {
  if (address.kind === 'file') return filesystemStore(address.path);
  return (await import('./s3-store.ts')).s3Store(address);
}
