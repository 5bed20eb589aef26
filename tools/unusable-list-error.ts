import { DroverError } from '../core/errors.ts';

/** A server has answered with a list of its tools that cannot be used; not that none has come. */
export class UnusableListError extends DroverError {
  constructor({ code, status, message }: DroverError, cause: unknown) {
    super(code, status, message, { cause });
    this.name = 'UnusableListError';
  }
}
