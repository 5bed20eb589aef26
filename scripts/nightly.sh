#!/usr/bin/env bash
# Runs what takes too long for each change: every suite in every mode, loads and floods at their full size, and long tortures.
# `npm run nightly`, on a machine with Postgres and Redis or with the right to install them. It goes on after a failure, and
# its exit code is the number of steps that failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export TEST_SIZE=nightly

failed=()
work=$(mktemp -d)
# If this runs as root, Postgres runs as another user, who needs access to its data.
chmod 711 "$work"
export DROVER_SERVICES_DIR=$work/services
trap 'scripts/services.sh down; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

step() {
  printf '\n== %s\n' "$*"
  "$@" || failed+=("$*")
}

scripts/services.sh up || exit 1
services_env=$(scripts/services.sh env) || exit 1
TEST_DATABASE_URL=$(sed -n 's/^DATABASE_URL=//p' <<<"$services_env")
TEST_REDIS_URL=$(sed -n 's/^REDIS_URL=//p' <<<"$services_env")
export TEST_DATABASE_URL TEST_REDIS_URL

# The front end that its test runs in a browser; it has packages of its own.
step npm --prefix examples/assistant-ui ci --no-audit --no-fund
step npm --prefix examples/assistant-ui run build

for mode in embedded postgres full; do
  step env TEST_MODES="$mode" npm test
done
for mode in postgres full; do
  step npm run torture -- --mode "$mode" --runs 120 --seconds 300
done

# Tests beside the previous release, which is built from its commit within the repository, where it finds the packages.
released=$(node -p 'JSON.parse(fs.readFileSync("db/released.json")).commit ?? ""')
if [ -n "$released" ]; then
  previous=.drover/previous
  rm -rf "$previous"
  build_previous() {
    git archive --prefix="$previous/" "$released" | tar -x &&
      npx tsc -p "$previous/tsconfig.build.json" --outDir "$previous/dist" &&
      cp "$previous/package.json" "$previous/dist/" && mkdir -p "$previous/dist/db/functions" &&
      cp "$previous"/db/functions/*.sql "$previous/dist/db/functions/" && npm run build
  }
  step build_previous
  for mode in postgres full; do
    step node dist/scripts/torture.js --mode "$mode" --runs 120 --seconds 120 --apis 2 --workers 4 --previous "$previous/dist"
  done
fi

printf '\n%s failed\n' "${#failed[@]}"
for each in "${failed[@]}"; do printf '  %s\n' "$each"; done
exit "${#failed[@]}"
