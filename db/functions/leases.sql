-- Renewing answers whether the driver still holds the run.
create or replace function renew_run_lease(tenant text, run uuid, held_fence integer, lease_ms integer) returns boolean
language plpgsql as $$
declare d text;
begin
  d := set_config('drover.tenant_id', tenant, true);
  update runs set driver_lease_expires_at = clock_timestamp() + lease_ms * interval '1 ms'
    where id = run and fence = held_fence and driver_lease_expires_at is not null;
  return found;
end $$;

create or replace function renew_call_lease(tenant text, call uuid, held_attempt integer, lease_ms integer) returns boolean
language plpgsql as $$
declare d text;
begin
  d := set_config('drover.tenant_id', tenant, true);
  update tool_calls set lease_expires_at = clock_timestamp() + lease_ms * interval '1 ms'
    where id = call and attempt = held_attempt and status = 'running';
  return found;
end $$;

-- Whoever holds the lock of an embedded data directory knows that every earlier holder is dead.
create or replace function void_leases() returns void
language plpgsql security definer set search_path from current as $$
begin
  update runs set driver_lease_expires_at = null, lost_leases = lost_leases + 1 where driver_lease_expires_at is not null;
  update tool_calls set lease_expires_at = now() where status = 'running' and lease_expires_at > now();
  update own_model_calls set lease_expires_at = now() where state = 'open';
end $$;

revoke execute on function void_leases() from public;
grant execute on function void_leases() to drover_maintenance;
