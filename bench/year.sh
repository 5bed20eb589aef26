#!/usr/bin/env bash
# A year of an installation in minutes: `year` of the benchmark, with a Postgres and a Drover whose clock is a file.
# Needs libfaketime (apt-get install faketime) and the build that `npm run bench` makes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

library=$(find /usr/lib -name libfaketimeMT.so.1 -print -quit)
[ -n "$library" ] || { echo 'libfaketime is missing: apt-get install faketime' >&2; exit 1; }
[ -f dist/bench/bench/main.js ] || { echo 'the bench is not built: npm run bench -- --help builds it' >&2; exit 1; }
work=$(mktemp -d)
chmod 755 "$work" # Postgres runs as another user where this runs as root
export DROVER_SERVICES_DIR=$work/services YEAR_CLOCK=$work/clock
echo '+0d' >"$YEAR_CLOCK"
chmod 644 "$YEAR_CLOCK"
# The time that passes is the real one; the file says how far ahead the date is.
clock=(env "LD_PRELOAD=$library" "FAKETIME_TIMESTAMP_FILE=$YEAR_CLOCK" FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1)

finish() {
  scripts/services.sh down
  rm -rf "$work"
}
trap finish EXIT
scripts/services.sh up

# Redis keeps the real clock: it counts what is left of a time, and hangs under libfaketime.
read -r pid <"$(ls "$work"/services/postgres/postmaster.pid)"
data=$(readlink -f "/proc/$pid/cwd")
server=$(readlink -f "/proc/$pid/exe")
port=$(sed -n 4p "$data/postmaster.pid")
as_owner=()
if [ "$(id -u)" = 0 ]; then as_owner=(runuser -u "$(stat -c %U "$data")" --); fi
control=${server%/*}/pg_ctl
(cd / && "${as_owner[@]}" "$control" -D "$data" -m fast -w stop >/dev/null)
(cd / && "${as_owner[@]}" "${clock[@]}" "$control" -D "$data" -l "$data/server.log" -o "-p $port" -w start >/dev/null)

"${clock[@]}" node dist/bench/bench/main.js --only year
