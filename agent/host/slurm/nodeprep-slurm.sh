# shellcheck shell=sh
# What healthcheck, prolog and epilog share (docs/slurm.md). It is read by them, not run.
#
# A node is drained by `nodeprep check` with exit code 1 alone: a fault was seen. 2 (wrong use or configuration), 3 (a
# gate could not be judged) and a check that does not end in time are logged, and drain nothing: they say nothing of the
# node. What somebody else drained stays as it is, and so does its reason.

# What differs here stands beside the scripts: NODEPREP=/opt/nodeprep/bin/nodeprep, NODEPREP_DEADLINE=30.
# shellcheck disable=SC1091
if [ -r "$HERE/nodeprep-slurm.conf" ]; then
    . "$HERE/nodeprep-slurm.conf"
fi
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin} # Slurm gives its scripts none
export PATH
NODEPREP=${NODEPREP:-nodeprep}
DEADLINE=${NODEPREP_DEADLINE:-45} # seconds for the check; Slurm kills a HealthCheckProgram after 60
NODE=${SLURMD_NODENAME:-$(hostname -s)}
OURS="nodeprep: " # how each reason of ours begins

say() {
    logger -t nodeprep-slurm -p "daemon.$1" -- "$2" 2>/dev/null || echo "nodeprep-slurm: $2" >&2
}

# judge: sets CODE, and LINE to what it says without the host's name.
judge() {
    LINE=$(timeout -k 5 "$DEADLINE" "$NODEPREP" check -o line 2>&1)
    CODE=$?
    LINE=$(printf %s "$LINE" | tail -n 1 | cut -d ' ' -f 2-)
    case $CODE:$LINE in # a program that breaks ends with 1 too
    1:"NOT READY"*) ;;
    1:*) CODE=70 ;;
    esac
    case $CODE in
    0 | 1) ;;
    124 | 137) say warning "nodeprep check did not end in $DEADLINE s; nothing is drained" ;;
    *) say warning "nodeprep check ended with $CODE: $LINE; nothing is drained" ;;
    esac
}

# shown KEY: a value that slurmctld has of this node; "" without one, or if it cannot be asked.
shown() {
    timeout 5 scontrol --oneliner show node "$NODE" 2>/dev/null | sed -n "s/.* $1=//p" | sed 's/ [A-Za-z]*=.*//; s/ \[[^]]*\]$//'
}

drain() {
    case $(shown State) in
    "") say warning "slurmctld cannot be asked for $NODE: not drained for $LINE" && return 1 ;;
    *DRAIN* | *DOWN* | *FAIL*)
        case $(shown Reason) in
        "$OURS$LINE") return 0 ;; # it says so already
        "$OURS"*) ;;
        *) return 0 ;; # a human's, or Slurm's own: it stays
        esac
        ;;
    esac
    timeout 5 scontrol update NodeName="$NODE" State=DRAIN Reason="$OURS$LINE" || {
        say warning "scontrol could not drain $NODE for $LINE"
        return 1
    }
    say notice "drained $NODE: $LINE"
}

# resume: only what we drained ourselves.
resume() {
    case $(shown State) in
    *DRAIN*) ;;
    *) return 0 ;;
    esac
    case $(shown Reason) in
    "$OURS"*) ;;
    *) return 0 ;;
    esac
    timeout 5 scontrol update NodeName="$NODE" State=RESUME && say notice "resumed $NODE: its checks pass"
}
