import { DroverError, type FieldError } from '../../core/errors.ts';

/** 400 for a body that is JSON, and is not taken whatever its schema: with what it says, for who has to answer under an id in it. */
export class RefusedJson extends DroverError {
  readonly body: unknown;

  constructor(body: unknown, detail: string, errors?: FieldError[]) {
    super('bad-request', 400, detail, { errors });
    this.body = body;
  }
}
