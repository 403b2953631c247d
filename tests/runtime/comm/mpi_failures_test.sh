#!/bin/sh
# Failures under mpirun: the exit code, and that the cause is printed exactly as often as it should be.
#   mpi_failures_test.sh MPIRUN PROGRAM (MODE EXIT_CODE TIMES MESSAGE)...
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

mpirun=$1
program=$2
shift 2
while [ $# -ge 4 ]; do
  "$mpirun" --allow-run-as-root --oversubscribe --bind-to none -np 3 "$program" "$1" 2> "$errors"
  code=$?
  times=$(grep -c -e "$4" "$errors")
  if [ "$code" -ne "$2" ] || [ "$times" -ne "$3" ]; then
    echo "$1: exit code $code (expected $2), '$4' printed $times times (expected $3):"
    cat "$errors"
    exit 1
  fi
  shift 4
done
