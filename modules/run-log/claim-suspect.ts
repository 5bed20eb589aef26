/**
 * Claims of suspects: of runs that have lost leases again and again, one of which its processes may die of. A process drives one
 * of them at a time. So the others do not die with it, and it alone comes to `lostLeases`.
 */
import { LIMITS } from '../../core/limits.ts';
import type { ClaimResult, RunClaim } from '../../db/claim-run.ts';
import type { GroupCommit } from './group-commit.ts';

/** The place of a process for a suspect. */
export interface SuspectPlace {
  /** Takes it; undefined if it is taken. The answer leaves it again, once. */
  take: () => (() => void) | undefined;
}

export function createSuspectPlace(): SuspectPlace {
  let isTaken = false;
  return {
    take() {
      if (isTaken) return undefined;
      isTaken = true;
      let isLeft = false;
      return () => {
        // By then another one may have it.
        if (!isLeft) isTaken = false;
        isLeft = true;
      };
    },
  };
}

interface Claim {
  claimed: ClaimResult;
  /** Leaves the place of a suspect: with the first commit that is progress, at the latest with the end of the drive. */
  leave: () => void;
}

/**
 * Claims a run; a suspect only if this process drives no other one, else reconciliation sends its job again. The first claim
 * takes no suspect: one that is claimed and given back could die of the other in between.
 */
export async function claimApart(
  { claim, suspectPlace }: Pick<GroupCommit, 'claim'> & { suspectPlace: SuspectPlace },
  wanted: RunClaim,
): Promise<Claim> {
  const claimed = await claim({ ...wanted, suspectFrom: LIMITS.suspectLeases });
  const leave = !claimed.ok && claimed.why === 'suspect' ? suspectPlace.take() : undefined;
  if (!leave) return { claimed, leave: () => undefined };
  try {
    const suspect = await claim(wanted);
    if (!suspect.ok) leave();
    return { claimed: suspect, leave };
  } catch (error) {
    leave();
    throw error;
  }
}
