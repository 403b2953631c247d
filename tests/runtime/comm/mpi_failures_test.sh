#!/bin/sh
# Failures under mpirun: the exit code, and that the cause is printed exactly as often as it should be.
#   mpi_failures_test.sh MPIRUN PROGRAM
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

expect() {  # mode, exit code, message, times
  "$MPIRUN" --allow-run-as-root --oversubscribe --bind-to none -np 3 "$PROGRAM" "$1" 2> "$errors"
  code=$?
  times=$(grep -c "$3" "$errors")
  if [ "$code" -ne "$2" ] || [ "$times" -ne "$4" ]; then
    echo "$1: exit code $code (expected $2), '$3' printed $times times (expected $4):"
    cat "$errors"
    exit 1
  fi
}

MPIRUN=$1
PROGRAM=$2
expect user-error 2 '^weft: grid 3; expected a divisor of 4$' 1
expect one-error 2 '^weft: rank 1: no such file$' 1
expect fault 3 '^weft: rank 1: disk full$' 1
expect stuck 3 '^rank [012]: barrier pending$' 3
expect mismatch 3 '^weft: rank 0: all_gather: MPI_ERR_TRUNCATE' 1
