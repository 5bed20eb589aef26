/** Injects the schedule's faults, each at its time, independently of the others. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { dump } from './partitions.ts';
import { sendDuplicates, type Probe } from './probe.ts';
import type { Fleet, Slot } from './fleet.ts';
import type { OwnServices } from './test-services.ts';
import type { ServiceProxy } from '../kit/service-proxy.ts';
import type { ScriptedModel } from './scripted-model.ts';
import { processOf, type Fault } from './schedule.ts';

interface Stage {
  fleet: Fleet;
  probe: Probe;
  own: OwnServices | undefined;
  databaseProxy: ServiceProxy;
  redisProxy: ServiceProxy | undefined;
  model: ScriptedModel;
  signal: AbortSignal;
  /** Prints a progress line. */
  say: (line: string) => void;
}

export interface Injected {
  fault: Fault;
  /** Wall clock of the fault; for a death at a point, of the death. */
  atMs: number;
  /** Whether there was nothing to hit. */
  skipped: boolean;
}

const SLOW_MS = 60;
const RESTART_MS = 600_000;
// Only one fault at a time affects a service.
const SERVICE_FAULTS = /^(restart|flush|cut|slow|dump)/;

/** Resolves when every fault is over and every process is up again. Throws if one cannot be restarted. */
export async function injectFaults(stage: Stage, schedule: readonly Fault[]): Promise<Injected[]> {
  const sinceMs = performance.now();
  const injected: Injected[] = [];
  let services: Promise<unknown> = Promise.resolve();
  const inject = async (fault: Fault) => {
    await delay(Math.max(0, fault.atMs - (performance.now() - sinceMs)), undefined, { signal: stage.signal });
    const work = async () => {
      const entry = { fault, atMs: Date.now(), skipped: false };
      injected.push(entry);
      const died = () => {
        entry.atMs = Date.now();
      };
      const hit = await carryOut(stage, fault, died);
      entry.skipped = hit === undefined;
      const second = (ms: number) => `${(ms / 1000).toFixed(1).padStart(6)} s`;
      const over = second(performance.now() - sinceMs);
      stage.say(`${second(fault.atMs)}  ${fault.kind}${hit ? `: ${hit}, over at ${over.trim()}` : ' (hit nothing)'}`);
    };
    if (!SERVICE_FAULTS.test(fault.kind)) return work();
    const next = services.then(work);
    services = next.catch(() => undefined);
    return next;
  };
  await Promise.all(schedule.map(inject));
  return injected;
}

/** The target that was hit; undefined if there was none. */
async function carryOut(stage: Stage, fault: Fault, died: () => void): Promise<string | undefined> {
  switch (fault.kind) {
    case 'kill worker':
    case 'kill api':
    case 'kill combined':
      return kill(stage, processOf(fault.kind), fault.choice);
    case 'kill worker at a point':
    case 'kill api at a point':
    case 'kill combined at a point':
      return killAtPoint(stage, pickSlot(stage, processOf(fault.kind), fault), { ...fault, died });
    case 'freeze worker':
    case 'freeze combined':
      return freeze(pickSlot(stage, processOf(fault.kind), fault), fault.forMs);
    case 'isolate worker':
      return isolate(pickSlot(stage, 'worker', fault), fault.forMs);
    case 'model outage':
      return stopModel(stage.model, fault);
    case 'duplicate jobs':
      return `${await sendDuplicates(stage.probe, fault.choice)} jobs`;
    case 'cut database':
      return cut(stage.databaseProxy, fault.forMs);
    case 'cut redis':
      return cut(stage.redisProxy, fault.forMs);
    case 'slow database':
      return slow(stage.databaseProxy, fault.forMs);
    case 'dump database':
      return dump(stage.probe, fault.forMs).catch(() => undefined);
    case 'restart postgres':
      return timed(stage.own?.restartPostgres);
    case 'restart redis':
      return timed(stage.own?.restartRedis);
    case 'flush redis':
      return timed(stage.own?.flushRedis);
  }
}

function pickSlot({ fleet }: Stage, kind: Slot['kind'], { choice }: Pick<Fault, 'choice'>): Slot | undefined {
  const free = fleet.slots.filter((slot) => slot.kind === kind && !slot.busy);
  return free[choice % Math.max(1, free.length)];
}

/** Kills a process; if all are being restarted, kills one during its start. */
async function kill(stage: Stage, kind: Slot['kind'], choice: number): Promise<string | undefined> {
  const slot = pickSlot(stage, kind, { choice });
  if (!slot) {
    const starting = stage.fleet.slots.find((each) => each.kind === kind && each.busy === 'starting');
    await starting?.kill();
    return starting && `${starting.name}, while it started`;
  }
  slot.busy = 'starting';
  await killAndStart(stage, slot);
  slot.busy = undefined;
  return slot.name;
}

async function killAtPoint(
  stage: Stage,
  slot: Slot | undefined,
  { point, forMs, died }: Pick<Fault, 'point' | 'forMs'> & { died: () => void },
): Promise<string | undefined> {
  if (!slot || !point) return undefined;
  slot.busy = 'doomed';
  const hit = await slot.killAt(point, forMs);
  if (hit) {
    died();
    await killAndStart(stage, slot);
  }
  slot.busy = undefined;
  return hit ? `${slot.name}, ${point.name}` : undefined;
}

/** Like a supervisor: a process that cannot start while a service is away is started again. */
async function killAndStart({ signal, say }: Stage, slot: Slot): Promise<void> {
  await slot.kill();
  const endsAtMs = performance.now() + RESTART_MS;
  for (;;) {
    try {
      await slot.start();
      return;
    } catch (error) {
      if (signal.aborted || performance.now() > endsAtMs) throw error;
      say(`          ${slot.name} could not start and is started again`);
      await slot.kill();
      await delay(500, undefined, { signal });
    }
  }
}

/** A separate shell thaws it, so that it is not left frozen even if this process dies. */
async function freeze(slot: Slot | undefined, forMs: number): Promise<string | undefined> {
  if (!slot) return undefined;
  slot.busy = 'frozen';
  const script = 'kill -STOP "$0" && sleep "$1"; kill -CONT "$0"';
  const shell = spawn('/bin/sh', ['-c', script, String(slot.pid()), String(forMs / 1000)], {
    stdio: 'ignore',
    detached: true,
  });
  await once(shell, 'exit');
  slot.busy = undefined;
  return `${slot.name} for ${forMs} ms`;
}

/** Cuts it off from the services beyond its leases, while it runs. */
async function isolate(slot: Slot | undefined, forMs: number): Promise<string | undefined> {
  if (!slot?.link) return undefined;
  slot.busy = 'isolated';
  await slot.link.cut();
  await delay(forMs);
  await slot.link.restore();
  slot.busy = undefined;
  return `${slot.name} for ${forMs} ms`;
}

async function stopModel(model: ScriptedModel, { forMs, choice }: Fault): Promise<string> {
  const status = choice % 2 === 0 ? 500 : 529;
  model.stop(status, forMs);
  await delay(forMs);
  return `${status} for ${forMs} ms`;
}

async function cut(proxy: ServiceProxy | undefined, forMs: number): Promise<string | undefined> {
  if (!proxy) return undefined;
  await proxy.cut();
  await delay(forMs);
  await proxy.restore();
  return `for ${forMs} ms`;
}

async function slow(proxy: ServiceProxy, forMs: number): Promise<string> {
  proxy.setLatency(SLOW_MS);
  await delay(forMs);
  proxy.setLatency(0);
  return `by ${SLOW_MS} ms, for ${forMs} ms`;
}

async function timed(work: (() => Promise<void>) | undefined): Promise<string | undefined> {
  if (!work) return undefined;
  const sinceMs = performance.now();
  await work();
  return `took ${Math.round(performance.now() - sinceMs)} ms`;
}
