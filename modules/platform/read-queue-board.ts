/** The work as the queue board shows it, for the operator: the turns of all tenants, by ids, names and outcomes. */
export {
  countTurns,
  findBoardTurn,
  findTurnAbove,
  listBoardTurns,
  listQueueWorkers,
  listTurnsBelow,
  listTurnsOfRun,
  MOST_SHOWN,
  type BoardTurn,
  type TurnAbove,
  type TurnState,
} from '../../db/queue-board.ts';
