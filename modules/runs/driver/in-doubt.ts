/**
 * What follows from calls of unknown outcome. A late result may settle them until it is committed: then it does not follow any
 * more.
 */
import type { CallState } from '../../../core/state.ts';
import { askAbout } from '../../approvals/ask-about.ts';
import { mark, rewind } from '../../run-log/run-log.ts';
import { commit } from './commit.ts';
import type { Drive } from './drive-state.ts';
import { findLastSaid } from './messages.ts';
import { failOpenTurn } from './turn.ts';

/**
 * Asks people about the calls, and commits: a question about a call that is settled would stay open. By itself, since it is
 * taken back without what the drive does besides.
 */
export async function askInDoubt(drive: Drive, calls: readonly CallState[]): Promise<void> {
  const { log } = drive;
  const point = mark(log);
  const ask = () => askAbout(drive, inDoubt(log.state.calls, calls));
  drive.uncommitted.reconsider = () => {
    rewind(log, point);
    ask();
  };
  ask();
  await commit(drive);
}

/** Fails the turn as the state of its calls demands. If the outcome of one is known by the commit, the drive decides anew. */
export function failInDoubt(drive: Drive, error: { code: string; message: string }): void {
  const { log, uncommitted } = drive;
  const point = mark(log);
  const unknown = inDoubt(log.state.calls, log.state.calls);
  failOpenTurn(drive, error, findLastSaid(drive));
  if (unknown.length === 0) return;
  uncommitted.takeBack = () => {
    if (inDoubt(log.base.calls, unknown).length === unknown.length) return;
    rewind(log, point);
    Object.assign(uncommitted, { takeBack: null, reconsider: null });
  };
}

/** Of these calls, those whose outcome is unknown by now. */
function inDoubt(now: readonly CallState[], calls: readonly CallState[]): CallState[] {
  return now.filter(({ id, status }) => status === 'unknown' && calls.some((call) => call.id === id));
}
