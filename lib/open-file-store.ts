import type { FileStore, FileStoreAddress } from './file-store.ts';
import { filesystemStore } from './filesystem-store.ts';

/** Opens the store of an address; nothing is asked of it before it is used. The SDK of S3 is loaded only where it is wanted. */
export async function openFileStore(address: FileStoreAddress): Promise<FileStore> {
  if (address.kind === 'file') return filesystemStore(address.path);
  return (await import('./s3-store.ts')).s3Store(address);
}
