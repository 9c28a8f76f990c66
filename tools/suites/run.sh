#!/bin/bash
# Runs the tests of a Go package that starts controller-runtime's envtest, once with each folder of binaries, and prints what a row of
# docs/suites.md needs: what passed, the wall time, and the largest memory of the servers.
#
#     tools/suites/run.sh PACKAGE_FOLDER ASSETS... [-- ARGUMENTS OF THE TESTS]
#
# PACKAGE_FOLDER is in a checkout of the suite; ASSETS are folders for KUBEBUILDER_ASSETS: one from `flyball assets`, and one with the
# real etcd and kube-apiserver (`cargo xtask assets` prints it). The whole output stays in a file, whose name is printed.
set -u
package=$(realpath "$1") || exit 2
shift
assets=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    assets+=("$(realpath "$1")")
    shift
done
[ $# -gt 0 ] && shift
folder=$(mktemp -d)
cd "$package" || exit 2
go test -c -o "$folder/suite.test" . || exit 1

# The processes below one, itself included.
family() {
    echo "$1"
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do family "$child"; done
}

# The sum of what the servers below a process have used at most, in KiB.
memory() {
    local sum=0 peak
    for process in $(family "$1"); do
        case "$(tr '\0' ' ' <"/proc/$process/cmdline" 2>/dev/null)" in
        *suite.test*) ;;
        *etcd* | *kube-apiserver*)
            peak=$(awk '/VmHWM/ {print $2}' "/proc/$process/status" 2>/dev/null)
            sum=$((sum + ${peak:-0}))
            ;;
        esac
    done
    echo "$sum"
}

for one in "${assets[@]}"; do
    log=$folder/$(basename "$(dirname "$one")")-$(basename "$one").log
    begin=$(date +%s.%N)
    KUBEBUILDER_ASSETS=$one "$folder/suite.test" "$@" >"$log" 2>&1 &
    suite=$!
    most=0
    while kill -0 "$suite" 2>/dev/null; do
        now=$(memory "$suite")
        [ "$now" -gt "$most" ] && most=$now
        sleep 0.5
    done
    wait "$suite"
    code=$?
    took=$(awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN {printf "%.1f", b - a}')
    # Ginkgo's summary, or else the number of Go's own tests.
    passed=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -aE '^(SUCCESS|FAIL)! -- ' | tail -1)
    [ -n "$passed" ] || passed="$(grep -ac '^--- PASS' "$log") passed, $(grep -ac '^--- FAIL' "$log") failed"
    echo "$one: exit $code, $took s, $((most / 1024)) MiB; $passed; $log"
done
