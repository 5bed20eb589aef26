import { DroverError, type FieldError } from '../../core/errors.ts';

/** 400 for a JSON body that is refused regardless of any schema; keeps the body, for answers under an id in it. */
export class RefusedJson extends DroverError {
  readonly body: unknown;

  constructor(body: unknown, detail: string, errors?: FieldError[]) {
    super('bad-request', 400, detail, { errors });
    this.body = body;
  }
}
